"""The codecs, Java's framings, and decompression limits."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.errors import DecodeError
from kshare.protocol.compression import DECOMPRESSED_LIMIT, Compression, compress, decompress

PACKING = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
packing = pytest.mark.parametrize("codec", PACKING)

blocks = st.one_of(
    st.binary(max_size=2000), st.builds(bytes.__mul__, st.binary(max_size=9), st.integers(0, 30_000))
)


@given(codec=st.sampled_from(Compression), data=blocks)
def test_round_trip(codec: Compression, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(bytearray(packed)), len(data)) == data


@packing
@given(data=st.binary(min_size=1, max_size=300))
def test_one_byte_above_the_limit(codec: Compression, data: bytes) -> None:
    with pytest.raises(DecodeError, match=f"limit of {len(data) - 1} bytes"):
        decompress(codec, compress(codec, data), len(data) - 1)


@pytest.mark.parametrize("codec", [-1, 5, 7, 99])
def test_unknown_codecs(codec: int) -> None:
    with pytest.raises(DecodeError, match=f"codec {codec} is not known"):
        decompress(codec, b"")


def test_limit_applies_without_compression_too() -> None:
    with pytest.raises(DecodeError, match="limit of 2 bytes"):
        decompress(Compression.NONE, b"abc", 2)


@packing
@given(data=st.binary(max_size=200))
def test_random_bytes(codec: Compression, data: bytes) -> None:
    try:
        decompress(codec, data, 1_000_000)
    except DecodeError as broken:
        assert str(broken)


@packing
@given(data=blocks, place=st.integers(0), byte=st.integers(0, 255))
def test_damaged_bytes(codec: Compression, data: bytes, place: int, byte: int) -> None:
    packed = bytearray(compress(codec, data))
    packed[place % len(packed)] = byte
    try:
        assert len(decompress(codec, packed, 1_000_000)) <= 1_000_000
    except DecodeError as broken:
        assert str(broken)


@packing
def test_truncation_at_every_byte(codec: Compression) -> None:
    packed = compress(codec, b"some text, some text, some text" * 3)
    # Two truncations leave valid empty streams: xerial's header alone, and no frame at all.
    empty = {Compression.SNAPPY: {16}, Compression.LZ4: {0}, Compression.ZSTD: {0}, Compression.GZIP: set()}
    for stop in range(len(packed)):
        if stop not in empty[codec]:
            with pytest.raises(DecodeError):
                decompress(codec, packed[:stop])


def test_bytes_after_a_gzip_stream_are_refused() -> None:
    with pytest.raises(DecodeError, match="3 bytes after its end"):
        decompress(Compression.GZIP, gzip.compress(b"x") + b"abc")


# --- snappy: raw, and in xerial's framing


def xerial(*blocks: bytes, header: bytes = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)) -> bytes:
    return header + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def test_snappy_is_written_in_javas_framing() -> None:
    packed = compress(Compression.SNAPPY, bytes(40_000))
    assert packed == xerial(raw_snappy(bytes(32_768)), raw_snappy(bytes(40_000 - 32_768)))


def test_snappy_without_framing() -> None:
    assert decompress(Compression.SNAPPY, raw_snappy(b"hello" * 100)) == b"hello" * 100


def test_xerial_with_other_block_sizes_versions_and_joined_streams() -> None:
    header = b"\x82SNAPPY\0" + struct.pack("<ii", 1, 1)
    stream = xerial(raw_snappy(b"a" * 70_000), raw_snappy(b"b"), header=header) + xerial(raw_snappy(b"c"))
    assert decompress(Compression.SNAPPY, stream) == b"a" * 70_000 + b"bc"


@pytest.mark.parametrize(
    "stream",
    [
        xerial() + b"\0\0",
        xerial() + struct.pack(">i", 5) + b"abcd",
        xerial() + struct.pack(">i", -1),
        xerial(b""),
        xerial(b"\x05abcd"),
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\xff\x0f",
        b"\x80\x80\x80\x20" + b"a" * 100,
    ],
)
def test_invalid_snappy(stream: bytes) -> None:
    with pytest.raises(DecodeError, match="not valid snappy"):
        decompress(Compression.SNAPPY, stream)


def test_snappy_blocks_share_one_limit() -> None:
    stream = xerial(*[raw_snappy(bytes(1000))] * 10)
    assert len(decompress(Compression.SNAPPY, stream, 10_000)) == 10_000
    with pytest.raises(DecodeError, match="limit of 9999"):
        decompress(Compression.SNAPPY, stream, 9_999)


# --- lz4 and zstd: as written by Java and others


def test_lz4_blocks_are_readable_by_java() -> None:
    packed = compress(Compression.LZ4, bytes(100_000))
    assert packed[:7].hex() == "04224d18604082"  # independent blocks, 64 KiB, no checksums
    assert bytes(cramjam.lz4.decompress(packed)) == bytes(100_000)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 300_000])
@pytest.mark.parametrize("module", [cramjam.lz4, cramjam.zstd])
def test_frames_of_other_writers(size: int, module: Any) -> None:
    codec = Compression.LZ4 if module is cramjam.lz4 else Compression.ZSTD
    data = (b"0123456789" * (size // 10 + 1))[:size]
    frame = bytes(module.compress(data))
    assert decompress(codec, frame, size) == data
    skippable = struct.pack("<II", 0x184D2A53, 3) + b"abc"
    assert decompress(codec, frame + skippable + frame, 2 * size) == data + data


def test_zstd_frames_without_content_size() -> None:
    streaming = cramjam.zstd.Compressor()
    streaming.compress(b"0123456789" * 50_000)
    frame = bytes(streaming.finish())
    assert decompress(Compression.ZSTD, frame, 500_000) == b"0123456789" * 50_000
    with pytest.raises(DecodeError, match="limit of 499999"):
        decompress(Compression.ZSTD, frame, 499_999)


def test_false_sizes_allocate_no_memory() -> None:
    liars = [
        (Compression.SNAPPY, b"\xff\xff\xff\x3f" + b"a" * 20),
        (Compression.LZ4, bytes.fromhex("04224d18687000") + struct.pack("<Q", 2**60) + bytes(20)),
        (Compression.ZSTD, bytes.fromhex("28b52ffde0") + struct.pack("<Q", 2**60) + b"\x01\0\0"),
    ]
    tracemalloc.start()
    try:
        for codec, data in liars:
            with pytest.raises(DecodeError):
                decompress(codec, data, DECOMPRESSED_LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.lengthy
@packing
def test_decompression_bomb_uses_no_more_memory_than_the_limit(codec: Compression) -> None:
    bomb = compress(codec, bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="limit of 300000 bytes"):
            decompress(codec, bomb, 300_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
