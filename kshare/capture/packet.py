"""A captured packet."""

from __future__ import annotations

from typing import NamedTuple

MAX_PACKET_BYTES = 64 * 1024 * 1024
"""The largest plausible size of a packet or block. If one is larger, the file is damaged."""


class Packet(NamedTuple):
    """One packet as it was captured, perhaps truncated."""

    time: float
    """Seconds since the Unix epoch."""
    link: int
    """The format of its first layer: a number from the list of link types."""
    data: memoryview
