"""A captured packet, and the error about a file that isn't a sound capture."""

from __future__ import annotations

from typing import NamedTuple

from kshare.errors import KshareError

MAX_PACKET_BYTES = 64 * 1024 * 1024
"""The largest plausible size of a packet or block. If one is larger, the file is damaged."""


class Packet(NamedTuple):
    """One packet as it was captured, perhaps truncated."""

    time: float
    """Seconds since the Unix epoch."""
    link: int
    """The format of its first layer: a number from the list of link types."""
    data: memoryview


class CaptureError(KshareError, ValueError):
    """A file isn't a network capture, or is damaged or truncated: names the byte at which it breaks."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason
