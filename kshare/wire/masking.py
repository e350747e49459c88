"""Masks credentials before anything else reads them.

If a message that has such fields is broken, everything after the break is masked. So is everything behind a limit that
was reached before the message was known, and everything after what may be the header of such a request, if the bytes
can't be read to their end as another message: a request may be cut, of a later version, or follow a stray byte. After
version 0 of SaslHandshake, a password comes without any header.
"""

from __future__ import annotations

import re
import struct

from kshare.dissect import ByteSpan, Dissection
from kshare.dissect.fields import index

_SECRETS = {
    "SaslAuthenticateRequest": {"authBytes"},
    "SaslAuthenticateResponse": {"authBytes"},
    "AlterUserScramCredentialsRequest": {"salt", "saltedPassword"},
}
_KEYS = [key for key, name in index.REQUESTS.items() if name in _SECRETS]
_ANY_KEY = b"(?:%s)" % b"|".join(re.escape(key.to_bytes(2, "big")) for key in _KEYS)
_ANY_VERSION = re.compile(_ANY_KEY + rb".{6}(?:\xff\xff|[\x00-\x0f].)", re.DOTALL)
"""The key of such an API, version and correlation id, and the length of a client id: null, or less than 4096."""
_HEADER = re.compile(_ANY_KEY + rb"\x00[\x00-\x1f]|" + _ANY_VERSION.pattern, re.DOTALL)
"""The same, or the key and one of the first versions: such bytes are rarer than a key alone."""
_BEFORE_CLIENT_ID = 8
_SIZE_BYTES = 4
_HANDSHAKE = 17
_HANDSHAKE_0 = re.compile(re.escape(struct.pack(">hh", _HANDSHAKE, 0)) + b".{4}", re.DOTALL)
_MECHANISM = re.compile(rb"\x00[\x01-\x20][A-Z][A-Z0-9_-]*")
_FRAMES = ("request", "response")
_NOTE = "masked: it may hold a password"


def holds_secrets(api_key: int) -> bool:
    """Whether requests or responses of this API may contain credentials."""
    return bool(_SECRETS.keys() & {index.REQUESTS.get(api_key), index.RESPONSES.get(api_key)})


def mask(dissection: Dissection, data: bytearray) -> None:
    """Overwrite credentials in `data`, from which the dissection was made. Values that are slices of it change too."""
    secrets = _SECRETS.get(dissection.message, set())
    is_broken = dissection.error is not None or dissection.is_cut
    if not secrets and (is_broken or _begins_with_header(data)):
        start = _secret_start(data)
        for span in dissection.spans if start < len(data) else ():
            if span.end > start:
                span.note, span.value = _NOTE, None
        hide_from(start, data)
    is_unknown = dissection.is_cut and not dissection.message and dissection.root.kind in _FRAMES
    for span in dissection.spans if secrets or is_unknown else ():
        if (span.name in secrets and span.kind == "bytes") or span.kind == "unread":
            _hide(span, data)


def hide_plausible(data: bytearray) -> None:
    """Overwrite what follows anything like the header of a request with credentials."""
    hide_from(_secret_start(data), data)


def hide_from(start: int, data: bytearray) -> None:
    data[start:] = b"*" * max(0, len(data) - start)


def hide_token(dissection: Dissection, data: bytearray) -> None:
    """Overwrite a frame without header, as they follow version 0 of SaslHandshake, except for its size."""
    for span in dissection.spans:
        if span.end > _SIZE_BYTES:
            span.note, span.value = _NOTE, None
    hide_from(_SIZE_BYTES, data)


def begins_raw_tokens(api_key: int, version: int) -> bool:
    """Whether frames without headers, with passwords, follow this request."""
    return api_key == _HANDSHAKE and version == 0


def _begins_with_header(data: bytearray) -> bool:
    """Of any version, with or without a size. Whatever else it could be, its secrets may be read."""
    return any(_ANY_VERSION.match(data, at) for at in (0, _SIZE_BYTES))


def _secret_start(data: bytearray) -> int:
    found = _HEADER.search(data)
    start = len(data) if found is None else found.start() + _BEFORE_CLIENT_ID
    return min(start, _raw_token_start(data))


def _raw_token_start(data: bytearray) -> int:
    """Where the first request ends that may be a SaslHandshake in version 0. Frames without headers follow it."""
    for found in _HANDSHAKE_0.finditer(data):
        length = int.from_bytes(data[found.end() : found.end() + 2], "big", signed=True)
        mechanism = _MECHANISM.match(data, found.end() + 2 + max(0, length))
        if mechanism is not None:
            return min(mechanism.end(), mechanism.start() + 2 + data[mechanism.start() + 1])
    return len(data)


def _hide(span: ByteSpan, data: bytearray) -> None:
    data[span.offset : span.end] = b"*" * span.length
    span.note = _NOTE if span.kind != "unread" else f"{span.note} ({_NOTE})"
