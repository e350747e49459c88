"""Finds the boundaries of batches in a log segment, from their headers alone."""

from __future__ import annotations

from collections.abc import Iterator

from kshare.protocol.checksum import crc32c
from kshare.protocol.frames import MAX_FRAME
from kshare.protocol.record_header import (
    CHECKSUM_AT,
    CHECKSUM_BEHIND,
    HEADER,
    LENGTH_AT,
    LENGTH_BEHIND,
    MAGIC,
)

_KNOWN_ATTRIBUTES = 0x7F
_LEAST_BATCH = HEADER.size


def begins_with_batch(data: memoryview) -> bool:
    """Whether the data begins with a plausible batch header, even if the rest is broken or cut off."""
    if len(data) < _LEAST_BATCH or not _LEAST_BATCH <= size_of_batch(data) <= MAX_FRAME:
        return False
    base_offset, _, leader_epoch, magic, _, attributes, last_delta, *_, count = HEADER.unpack_from(data)
    is_known = magic == MAGIC and attributes & ~_KNOWN_ATTRIBUTES == 0
    return bool(is_known and base_offset >= 0 and leader_epoch >= -1 and last_delta >= 0 and count >= 0)


def size_of_batch(data: memoryview, start: int = 0) -> int:
    """The size of a batch according to its header; may be negative if this isn't a batch."""
    return LENGTH_BEHIND + int.from_bytes(data[start + LENGTH_AT : start + LENGTH_BEHIND], "big", signed=True)


def is_certainly_batch(data: memoryview) -> bool:
    """Whether the data begins with a batch whose checksum is correct, which doesn't happen by chance."""
    end = size_of_batch(data)
    return begins_with_batch(data) and end <= len(data) and not problem_of_batch(data[:end])


def problem_of_batch(data: memoryview) -> str:
    """Why these bytes aren't one complete batch; empty if they are."""
    if len(data) < _LEAST_BATCH or size_of_batch(data) != len(data):
        return f"not a complete batch: {len(data)} bytes"
    if not begins_with_batch(data):
        return f"{len(data)} bytes that aren't a batch in format {MAGIC}"
    stored = int.from_bytes(data[CHECKSUM_AT:CHECKSUM_BEHIND], "big")
    actual = crc32c(data[CHECKSUM_BEHIND:])
    return "" if stored == actual else f"the checksum is {stored:#010x}, the bytes give {actual:#010x}"


def batch_cuts(data: memoryview) -> Iterator[tuple[int, int]]:
    """Yield start and end of each batch. From a batch with an invalid size on, the rest is one piece."""
    start = 0
    while start < len(data):
        size = size_of_batch(data, start)
        end = start + size if LENGTH_BEHIND < size <= len(data) - start else len(data)
        yield start, end
        start = end
