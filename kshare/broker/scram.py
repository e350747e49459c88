"""The server side of SCRAM (RFC 5802), with passwords in memory. One object per authentication."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping

from kshare.surroundings import random_bytes

MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS = 4096


class ScramServer:
    """One authentication: two messages from the client, and two responses. `users` maps names to passwords."""

    def __init__(
        self, mechanism: str, users: Mapping[str, str], nonce: Callable[[], bytes] = lambda: random_bytes(18)
    ) -> None:
        self.mechanism = mechanism
        self._hash = MECHANISMS[mechanism]
        self._users = users
        self._new_nonce = nonce
        self._user = ""
        self._salted = b""
        self._nonce = ""
        self._first_messages = ""
        """What both sides sign: the client's first message without its header, and our response."""

    def response(self, client_message: bytes) -> tuple[bytes | None, str | None]:
        """The response, or None if the authentication failed; and the user, once authenticated."""
        try:
            text = client_message.decode()
            return self._finish(text) if self._first_messages else (self._begin(text), None)
        except (ValueError, KeyError, binascii.Error):
            return None, None

    def _begin(self, text: str) -> bytes:
        _gs2, _authzid, bare = text.split(",", 2)
        fields = _fields(bare)
        self._user = fields["n"].replace("=2C", ",").replace("=3D", "=")
        password = self._users[self._user]
        salt = random_bytes(16)
        self._salted = hashlib.pbkdf2_hmac(self._hash, password.encode(), salt, _ITERATIONS)
        self._nonce = fields["r"] + base64.b64encode(self._new_nonce()).decode()
        first = f"r={self._nonce},s={base64.b64encode(salt).decode()},i={_ITERATIONS}"
        self._first_messages = f"{bare},{first}"
        return first.encode()

    def _finish(self, text: str) -> tuple[bytes | None, str | None]:
        without_proof, _, proof = text.rpartition(",p=")
        if _fields(without_proof)["r"] != self._nonce:
            return None, None
        signed = f"{self._first_messages},{without_proof}".encode()
        client_key = self._sign(self._salted, b"Client Key")
        stored = hashlib.new(self._hash, client_key).digest()
        expected = bytes(a ^ b for a, b in zip(client_key, self._sign(stored, signed), strict=True))
        if not hmac.compare_digest(expected, base64.b64decode(proof, validate=True)):
            return None, None
        verifier = self._sign(self._sign(self._salted, b"Server Key"), signed)
        return b"v=" + base64.b64encode(verifier), self._user

    def _sign(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(text: str) -> dict[str, str]:
    """name=value, name=value ..."""
    pairs = (part.partition("=") for part in text.split(","))
    return {name: value for name, _, value in pairs}
