"""Masks credentials before anything else reads them.

If a message that has such fields is broken, everything after the break is masked. So is everything behind a limit that
was reached before the message was known, and everything after what may be the header of such a request, if the bytes
can't be read to their end as another message: a request may be cut, of a later version, or follow a stray byte.
"""

from __future__ import annotations

import re

from kshare.dissect import ByteSpan, Dissection
from kshare.dissect.fields import index

_SECRETS = {
    "SaslAuthenticateRequest": {"authBytes"},
    "SaslAuthenticateResponse": {"authBytes"},
    "AlterUserScramCredentialsRequest": {"salt", "saltedPassword"},
}
_KEYS = [key for key, name in index.REQUESTS.items() if name in _SECRETS]
_HEADER = re.compile(
    b"|".join(re.escape(key.to_bytes(2, "big")) + rb"\x00[\x00-\x1f]" for key in _KEYS), re.DOTALL
)
"""The key of such an API, and a version."""
_CORRELATION_BYTES = 4
_FRAMES = ("request", "response")
_NOTE = "masked: it may hold a password"


def holds_secrets(api_key: int) -> bool:
    """Whether requests or responses of this API may contain credentials."""
    return bool(_SECRETS.keys() & {index.REQUESTS.get(api_key), index.RESPONSES.get(api_key)})


def mask(dissection: Dissection, data: bytearray) -> None:
    """Overwrite credentials in `data`, from which the dissection was made. Values that are slices of it change too."""
    secrets = _SECRETS.get(dissection.message, set())
    if not secrets and (dissection.error is not None or dissection.is_cut):
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


def _secret_start(data: bytearray) -> int:
    found = _HEADER.search(data)
    return len(data) if found is None else found.end() + _CORRELATION_BYTES


def _hide(span: ByteSpan, data: bytearray) -> None:
    data[span.offset : span.end] = b"*" * span.length
    span.note = _NOTE if span.kind != "unread" else f"{span.note} ({_NOTE})"
