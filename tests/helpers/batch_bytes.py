"""Hand-made batches, for contents that the builder doesn't write."""

from __future__ import annotations

import google_crc32c

from kshare.protocol.record_header import HEADER, MAGIC

_CHECKSUM = slice(17, 21)
_CHECKED_FROM = 21


def recheck(data: bytearray) -> None:
    """Correct the checksum of a modified batch, with another library than the one under test."""
    data[_CHECKSUM] = google_crc32c.value(bytes(data[_CHECKED_FROM:])).to_bytes(4, "big")


def raw_batch(
    payload: bytes, count: int, *, attributes: int = 0, last_delta: int = 9, base_offset: int = 0
) -> bytearray:
    """A batch with a valid header and any bytes as records."""
    fields = (0, MAGIC, 0, attributes, last_delta, 0, 0, -1, -1, -1, count)
    data = bytearray(HEADER.pack(base_offset, HEADER.size - 12 + len(payload), *fields) + payload)
    recheck(data)
    return data
