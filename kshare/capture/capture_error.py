"""The error about a damaged capture."""

from __future__ import annotations

from kshare.errors import KshareError


class CaptureError(KshareError, ValueError):
    """A file isn't a network capture, or is damaged or truncated: names the byte at which it breaks."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason
