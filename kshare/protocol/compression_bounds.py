"""Upper bounds of decompressed sizes, read from the framing of a section without decompressing anything.

Each function reads block headers only, in time proportional to the number of blocks, without allocating. A bound may be
too large by up to one block, never too small. Invalid framing raises ValueError, IndexError or struct.error.
`compression` decides whether a bound is too large; the codec checks the blocks themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

_UINT32 = struct.Struct("<I")
_LZ4_MAGIC = 0x184D2204
LZ4_STORED = 0x80000000
_ZSTD_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_SKIPPABLE_MASK = 0xFFFFFFF0
# A match of three bytes produces 64 bytes; nothing in snappy grows faster.
_SNAPPY_GROWTH = 22
# A byte that lengthens a match adds 255 bytes; the few bytes more are made up for by the rest of the sequence.
_LZ4_GROWTH = 255
_ZSTD_MAX_BLOCK = 128 * 1024
_GZIP_GROWTH = 1032
_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
XERIAL_MAGIC = b"\x82SNAPPY\x00"

_BoundOf = Callable[[memoryview, int], tuple[int, int]]
"""Takes the position after a frame's magic number; returns the frame's bound and its end."""


def _uint32(view: memoryview, position: int) -> int:
    number: int = _UINT32.unpack_from(view, position)[0]
    return number


def snappy_bound(view: memoryview) -> int:
    """The size that a raw snappy block states; the codec then enforces it."""
    size = 0
    for index in range(5):
        byte = view[index]
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    else:
        raise ValueError("its length is not a 32-bit number")
    if size > len(view) * _SNAPPY_GROWTH:
        raise ValueError(f"{len(view)} bytes can't hold the {size} that it states")
    return size


def _sum_of_frames(view: memoryview, magic: int, codec: str, bound_of: _BoundOf) -> int:
    """The sum of the bounds of all frames; skippable frames contain nothing."""
    total = 0
    position = 0
    while position < len(view):
        found = _uint32(view, position)
        if found & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            position += 8 + _uint32(view, position + 4)
            continue
        if found != magic:
            raise ValueError(f"no {codec} frame begins here")
        bound, position = bound_of(view, position + 4)
        total += bound
    return total


def lz4_bound(view: memoryview) -> int:
    return _sum_of_frames(view, _LZ4_MAGIC, "lz4", _lz4_frame)


def _lz4_frame(view: memoryview, position: int) -> tuple[int, int]:
    flags = view[position]
    block_limit = 1 << (8 + 2 * (view[position + 1] >> 4 & 7))
    position += 3 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    block_checksum = 4 if flags & 0x10 else 0
    bound = 0
    while size := _uint32(view, position):
        stored = size & LZ4_STORED
        size &= ~LZ4_STORED
        bound += size if stored else min(block_limit, size * _LZ4_GROWTH)
        position += 4 + size + block_checksum
    return bound, position + 4 + (4 if flags & 0x04 else 0)


def plain_lz4_blocks(view: memoryview, header: bytes) -> Iterator[tuple[memoryview, bool]]:
    """Each block, and whether it is uncompressed, of frames that all begin with this header and have no checksums."""
    position = 0
    while position < len(view):
        if view[position : position + len(header)] != header:
            raise ValueError("no lz4 frame with the same header begins here")
        position += len(header)
        while size := _uint32(view, position):
            start = position + 4
            position = start + (size & ~LZ4_STORED)
            yield view[start:position], size >= LZ4_STORED
        position += 4


def zstd_bound(view: memoryview) -> int:
    return _sum_of_frames(view, _ZSTD_MAGIC, "zstd", _zstd_frame)


def _zstd_frame(view: memoryview, position: int) -> tuple[int, int]:
    descriptor = view[position]
    single_segment = descriptor & 0x20
    size_flag = descriptor >> 6
    size_width = (1 if single_segment else 0, 2, 4, 8)[size_flag]
    size_at = position + 1 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    position = size_at + size_width
    bound = 0
    is_last = False
    while not is_last:
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        is_last = bool(header & 1)
        kind, size = header >> 1 & 3, header >> 3
        bound += size if kind < 2 else _ZSTD_MAX_BLOCK
        position += 3 + (1 if kind == 1 else size)
    if size_width:
        # If a frame states its size, the codec enforces it; two-byte sizes are relative to 256.
        stated = int.from_bytes(view[size_at : size_at + size_width], "little")
        bound = min(bound, stated + (256 if size_width == 2 else 0))
    return bound, position + (4 if descriptor & 0x04 else 0)


def decompressed_bound(codec: int, view: memoryview) -> int:
    """As much as a section can become; 0 if its framing is broken, so that nothing is decompressed."""
    try:
        if codec == _GZIP:
            return len(view) * _GZIP_GROWTH
        if codec == _SNAPPY:
            is_xerial = view[: len(XERIAL_MAGIC)] == XERIAL_MAGIC
            return len(view) * _SNAPPY_GROWTH if is_xerial else snappy_bound(view)
        if codec == _LZ4:
            return lz4_bound(view)
        if codec == _ZSTD:
            return zstd_bound(view)
    except (ValueError, IndexError, struct.error):
        return 0
    return len(view)
