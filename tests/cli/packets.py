"""Splits captures into packets, so that tests can remove, repeat and reorder them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

CAPTURES = Path(__file__).parent / "captures"
_FILE_HEADER = 24


def packets_of(capture: bytes) -> list[bytes]:
    """The packets, each with its header."""
    packets = []
    at = _FILE_HEADER
    while at < len(capture):
        (size,) = struct.unpack_from("<I", capture, at + 8)
        packets.append(capture[at : at + 16 + size])
        at += 16 + size
    return packets


def with_packets(capture: bytes, packets: Iterable[bytes]) -> bytes:
    return capture[:_FILE_HEADER] + b"".join(packets)
