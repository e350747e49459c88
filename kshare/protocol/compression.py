"""Compresses and decompresses with Kafka's five codecs, with a limit on the decompressed size.

Decides how much memory a compressed section may take, before any of it is allocated; `DECOMPRESSED_LIMIT` is the
default limit. Never looks at records.

First an upper bound of the output size is read from the codec's framing (`compression_bounds`), then the section is
decompressed into a buffer of at most that size. So a decompression bomb takes no more memory than the limit, and a
small section whose header states a huge size takes none.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam

from kshare.errors import DecodeError
from kshare.protocol.compression_bounds import (
    LZ4_STORED,
    XERIAL_MAGIC,
    lz4_bound,
    plain_lz4_blocks,
    snappy_bound,
    zstd_bound,
)

__all__ = ["DECOMPRESSED_LIMIT", "Compression", "SectionTooLarge", "compress", "decompress"]

Buffer = bytes | bytearray | memoryview
DecompressInto = Callable[[memoryview, bytearray], int]

DECOMPRESSED_LIMIT = 128 * 1024 * 1024
"""The default limit for one section: far above a broker's usual batches of 1 MiB."""

_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_LZ4_BLOCK = 64 * 1024
# Version 1, independent blocks of 64 KiB, no checksums: Java's reader refuses blocks that depend on earlier ones.
# The last byte is the checksum of the two before it, so it is constant, too.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_PLAIN_FRAMES = {
    _LZ4_HEADER: _LZ4_BLOCK,
    b"\x04\x22\x4d\x18\x60\x50\xfb": 256 * 1024,
    b"\x04\x22\x4d\x18\x60\x60\x51": 1024 * 1024,
    b"\x04\x22\x4d\x18\x60\x70\x73": 4096 * 1024,
}
"""Headers of frames with independent blocks and no checksums, and the largest block that each allows."""
_ZSTD_LEVEL = 3
_GZIP_WINDOW = 31


class SectionTooLarge(DecodeError):
    """A section would decompress to more than the limit, as far as can be told without decompressing all of it."""

    def __init__(self, reason: str) -> None:
        super().__init__("compressed records", 0, reason)


class Compression(enum.IntEnum):
    """The codec numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: Buffer) -> bytes:
    """Compresses a section so that Java clients can read it: snappy in xerial's framing, lz4 as frames."""
    if codec is Compression.GZIP:
        packer = zlib.compressobj(wbits=_GZIP_WINDOW)
        return packer.compress(data) + packer.flush()
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.LZ4:
        return _compress_lz4(data)
    if codec is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))
    return bytes(data)


def decompress(codec: int, data: Buffer, limit: int = DECOMPRESSED_LIMIT) -> memoryview:
    """Reverses `compress`. Raises SectionTooLarge for more than `limit` bytes, DecodeError for what is invalid."""
    view = memoryview(data)
    try:
        if codec == Compression.NONE:
            return _within(view, limit)
        if codec == Compression.GZIP:
            return _decompress_gzip(view, limit)
        if codec == Compression.SNAPPY:
            return _decompress_snappy(view, limit)
        if codec == Compression.LZ4:
            return _decompress_lz4(view, limit)
        if codec == Compression.ZSTD:
            return _decompress_bounded(cramjam.zstd.decompress_into, view, zstd_bound(view), limit)
    except DecodeError:
        raise
    except (cramjam.DecompressionError, zlib.error, struct.error, ValueError, IndexError) as broken:
        name = Compression(codec).name.lower()
        raise DecodeError("compressed records", 0, f"not valid {name}: {broken}") from broken
    raise DecodeError("compressed records", 0, f"compression codec {codec} is not known")


def _too_large(limit: int) -> SectionTooLarge:
    return SectionTooLarge(f"would decompress to more than the limit of {limit} bytes")


def _within(view: memoryview, limit: int) -> memoryview:
    if len(view) > limit:
        raise _too_large(limit)
    return view


def _decompress_gzip(view: memoryview, limit: int) -> memoryview:
    unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
    # One byte above the limit distinguishes "more than the limit" from "exactly the limit".
    plain = unpacker.decompress(view, limit + 1)
    if len(plain) > limit:
        raise _too_large(limit)
    if not unpacker.eof:
        raise ValueError("it ends in the middle")
    if unpacker.unused_data:
        raise ValueError(f"{len(unpacker.unused_data)} bytes after its end")
    return memoryview(plain)


def _decompress_snappy(view: memoryview, limit: int) -> memoryview:
    is_xerial = view[: len(XERIAL_MAGIC)] == XERIAL_MAGIC
    # The blocks are read twice and not kept in a list: a hostile stream may consist of very many tiny blocks.
    total = sum(map(snappy_bound, _xerial_blocks(view))) if is_xerial else snappy_bound(view)
    if total > limit:
        raise _too_large(limit)
    target = bytearray(total)
    start = 0
    for block in _xerial_blocks(view) if is_xerial else (view,):
        stop = start + snappy_bound(block)
        cramjam.snappy.decompress_raw_into(block, memoryview(target)[start:stop])
        start = stop
    return memoryview(target)


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    position = 0
    while position < len(view):
        if view[position : position + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            # Streams may be concatenated: each begins with the header.
            position += len(_XERIAL_HEADER)
            if position > len(view):
                raise ValueError("its header is cut off")
            continue
        if position + 4 > len(view):
            raise ValueError("a block's length is cut off")
        size = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if size > len(view) - position:
            raise ValueError(f"a block of {size} bytes, {len(view) - position} are left")
        yield view[position : position + size]
        position += size


def _decompress_lz4(view: memoryview, limit: int) -> memoryview:
    header = bytes(view[: len(_LZ4_HEADER)])
    block_limit = _LZ4_PLAIN_FRAMES.get(header)
    bound = lz4_bound(view)
    if block_limit is None or bound > limit:
        return _decompress_bounded(cramjam.lz4.decompress_into, view, bound, limit)
    # Java writes such frames. They need no frame decoder, whose own buffers take a fifth of the time.
    target = memoryview(bytearray(bound))
    start = 0
    for block, is_stored in plain_lz4_blocks(view, header):
        if is_stored:
            target[start : start + len(block)] = block
            start += len(block)
        else:
            size = min(block_limit, bound - start)
            start += cramjam.lz4.decompress_block_into(block, target[start : start + size], output_len=size)
    return target[:start]


def _decompress_bounded(
    decompress_into: DecompressInto, view: memoryview, bound: int, limit: int
) -> memoryview:
    target = bytearray(min(bound, limit))
    try:
        size = decompress_into(view, target)
    except cramjam.DecompressionError:
        if bound > limit:
            raise SectionTooLarge(
                f"broken, or would decompress to more than the limit of {limit} bytes"
            ) from None
        raise
    return memoryview(target)[:size]


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _compress_lz4(data: Buffer) -> bytes:
    view = memoryview(data)
    out = bytearray(_LZ4_HEADER)
    for start in range(0, len(view), _LZ4_BLOCK):
        plain = view[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += len(block).to_bytes(4, "little")
            out += block
        else:
            out += (len(plain) | LZ4_STORED).to_bytes(4, "little")
            out += plain
    return bytes(out + bytes(4))
