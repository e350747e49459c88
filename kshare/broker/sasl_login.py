"""SASL authentication of one connection: SaslHandshake selects the mechanism, SaslAuthenticate carries its messages.

Decides the principal. Imported only if a listener has users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshare.broker.connection import ANONYMOUS
from kshare.broker.scram import MECHANISMS as SCRAM_MECHANISMS
from kshare.broker.scram import ScramServer
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from kshare.broker.security import Security

_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_PLAIN = "PLAIN"


class Login:
    """Authenticates and re-authenticates a client with PLAIN or SCRAM."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._mechanism: str | None = None
        self._scram: ScramServer | None = None
        self.principal = ANONYMOUS
        self._is_authenticated = False

    def allows(self, api_key: int) -> bool:
        return self._is_authenticated or api_key in (_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE)

    def handles(self, api_key: int) -> bool:
        return api_key in (_HANDSHAKE, _AUTHENTICATE)

    def response(self, request: Message) -> Message:
        if isinstance(request, SaslHandshakeRequest):
            return self._begin(request)
        assert isinstance(request, SaslAuthenticateRequest)
        return self._continue(bytes(request.auth_bytes))

    def _begin(self, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        offered = [_PLAIN, *SCRAM_MECHANISMS]
        if request.mechanism not in offered:
            return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, offered)
        self._mechanism = request.mechanism
        self._scram = None
        if request.mechanism in SCRAM_MECHANISMS:
            self._scram = ScramServer(request.mechanism, self._security.users)
        return SaslHandshakeResponse(mechanisms=offered)

    def _continue(self, client_message: bytes) -> SaslAuthenticateResponse:
        if self._mechanism is None:
            reason = "SaslAuthenticate request received after successful handshake only"
            return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, reason)
        if self._scram is not None:
            response, user = self._scram.response(client_message)
        else:
            response, user = (b"", self._check_plain(client_message))
        if response is None or (self._scram is None and user is None):
            self._mechanism = None
            reason = f"Authentication failed: invalid credentials with SASL mechanism {self._name()}"
            return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, reason)
        if user is None:
            return SaslAuthenticateResponse(error_message=None, auth_bytes=response)
        self._is_authenticated, self.principal = True, f"User:{user}"
        self._mechanism = None
        lifetime = self._security.session_lifetime_ms
        return SaslAuthenticateResponse(error_message=None, auth_bytes=response, session_lifetime_ms=lifetime)

    def _name(self) -> str:
        return _PLAIN if self._scram is None else self._scram.mechanism

    def _check_plain(self, client_message: bytes) -> str | None:
        """The user, if the password is correct. The message is [authorization id] NUL user NUL password."""
        parts = client_message.split(b"\0")
        if len(parts) != 3:
            return None
        user, password = parts[1].decode(errors="replace"), parts[2].decode(errors="replace")
        return user if self._security.users.get(user) == password else None
