"""A captured packet."""

from __future__ import annotations

from typing import NamedTuple

MAX_PACKET_BYTES = 64 * 1024 * 1024
"""What a packet, or a block of a file, is believed to have at most. Beyond it the file is damaged."""


class Packet(NamedTuple):
    """One packet as it was captured, perhaps not whole."""

    time: float
    """Seconds since the Unix epoch."""
    link: int
    """How its first layer is to be read: a number from the list of link types."""
    data: memoryview
