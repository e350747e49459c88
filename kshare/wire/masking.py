"""Masks credentials before anything else reads them.

If a message that has such fields is broken, everything after the break is masked. So is everything behind a limit that
was reached before the message was known.
"""

from __future__ import annotations

from kshare.dissect import ByteSpan, Dissection
from kshare.dissect.fields import index

_SECRETS = {
    "SaslAuthenticateRequest": {"authBytes"},
    "SaslAuthenticateResponse": {"authBytes"},
    "AlterUserScramCredentialsRequest": {"salt", "saltedPassword"},
}
_FRAMES = ("request", "response")
_NOTE = "masked: it may hold a password"


def holds_secrets(api_key: int) -> bool:
    """Whether requests or responses of this API may contain credentials."""
    return bool(_SECRETS.keys() & {index.REQUESTS.get(api_key), index.RESPONSES.get(api_key)})


def mask(dissection: Dissection, data: bytearray) -> None:
    """Overwrite credentials in `data`, from which the dissection was made. Values that are slices of it change too."""
    secrets = _SECRETS.get(dissection.message, set())
    is_unknown = dissection.is_cut and not dissection.message and dissection.root.kind in _FRAMES
    for span in dissection.spans if secrets or is_unknown else ():
        if (span.name in secrets and span.kind == "bytes") or span.kind == "unread":
            _hide(span, data)


def _hide(span: ByteSpan, data: bytearray) -> None:
    data[span.offset : span.end] = b"*" * span.length
    span.note = _NOTE if span.kind != "unread" else f"{span.note} ({_NOTE})"
