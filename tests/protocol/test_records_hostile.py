"""Corrupt and malicious batches always raise a CorruptBatchError with its location, in bounded time and memory."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshare.errors import CorruptBatchError, DecodeError
from kshare.protocol.compression import Compression, compress
from kshare.protocol.decompression_budget import DecompressionLimit
from kshare.protocol.record_builder import BatchBuilder
from tests.helpers.batch_bytes import raw_batch, recheck
from tests.helpers.uncompiled import IMPLEMENTATIONS, Decoder, decoder

SOUND = bytes([12, 0, 0, 0, 1, 1, 0])
"""A valid record: length 6, attributes, timestamp delta, offset delta 0, null key, null value, no headers."""

implementations = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


def read(implementation: str, data: Any, **options: Any) -> list[Any]:
    """Read all records, as values, as records and as columns."""
    loaded: Decoder = decoder(implementation)
    seen = []
    for batch in loaded.records.read_batches(data, **options):
        columns = loaded.record_columns.RecordColumns()
        assert outcome(batch.values) == outcome(partial(values_of, batch))
        seen += [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch]
        columns.append(batch.walk())
        columns.take()
    return seen


def values_of(records: Iterable[Any]) -> list[Any]:
    return [record.value for record in records]


def outcome(way: Callable[[], list[Any]]) -> list[Any] | str:
    """The result, or the error message."""
    try:
        return way()
    except CorruptBatchError as error:
        return str(error)


@implementations
def test_valid_record_is_read(implementation: str) -> None:
    assert read(implementation, raw_batch(SOUND, 1)) == [(0, 0, None, None, ())]


@implementations
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_named(implementation: str, magic: int) -> None:
    message = struct.pack(">qiIbb", 12, 14, 0, magic, 0) + struct.pack(">ii", -1, -1)
    with pytest.raises(CorruptBatchError, match=rf"partition offset 12.*message format {magic}.*0.11"):
        read(implementation, message)


@implementations
@pytest.mark.parametrize("magic", [3, 127, 255])
def test_unknown_formats_are_refused(implementation: str, magic: int) -> None:
    data = raw_batch(SOUND, 1)
    data[16] = magic
    with pytest.raises(CorruptBatchError, match="is not known"):
        read(implementation, data)


@implementations
@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_lengths_too_small_for_a_header_are_refused(implementation: str, length: int) -> None:
    data = raw_batch(SOUND, 1, base_offset=70)
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatchError, match=f"partition offset 70 at byte 8: a length of {length}"):
        read(implementation, data)


@implementations
def test_wrong_checksum_names_the_batch_and_does_not_affect_the_next(implementation: str) -> None:
    broken, sound = raw_batch(SOUND, 1, base_offset=41), raw_batch(SOUND, 1, base_offset=51)
    broken[-1] ^= 1
    first, second = decoder(implementation).records.read_batches(broken + sound)
    with pytest.raises(CorruptBatchError, match=r"partition offset 41.*checksum") as caught:
        first.open()
    assert caught.value.base_offset == 41
    assert [record.offset for record in second] == [51]


@implementations
@pytest.mark.parametrize(
    ("payload", "count", "reason"),
    [
        (SOUND, -1, "record count of -1"),
        (SOUND, 0, "0 records in 7 bytes"),
        (SOUND, 2, "2 records in 7 bytes"),
        (SOUND, 2**31 - 1, "2147483647 records in 7 bytes"),
        (b"", 1, "1 records in 0 bytes"),
        (SOUND + b"\0", 1, "1 bytes after the last"),
        (SOUND + SOUND, 1, "7 bytes after the last"),
        (SOUND + SOUND, 2, "out of order"),
        (bytes([11]) + SOUND[1:], 1, "length"),
        (bytes([14]) + SOUND[1:], 1, "length"),
        (bytes([0xFF] * 5) + SOUND, 1, "length"),
        (bytes([0xFF] * 40), 5, "length"),
        (bytes([24, 0]) + b"\xff" * 10 + b"\x01\0\1\1\0", 1, "timestamp is too long"),
        (bytes([14, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80]), 1, "offset"),
        (bytes([12, 0, 0, 1, 1, 1, 0]), 1, "out of order"),
        (bytes([12, 0, 0, 20, 1, 1, 0]), 1, "out of order"),
        (bytes([12, 0, 0, 0, 3, 1, 0]), 1, "key's length is negative"),
        (bytes([12, 0, 0, 0, 1, 3, 0]), 1, "value's length is negative"),
        (bytes([12, 0, 0, 0, 1, 1, 1]), 1, "number of headers is negative"),
        (bytes([12, 0, 0, 0, 1, 1, 2]), 1, "don't fill"),
        (bytes([16, 0, 0, 0, 1, 1, 2, 1, 0]), 1, "header key's length is negative"),
        (bytes([16, 0, 0, 0, 1, 1, 2, 0, 3]), 1, "header value's length is negative"),
        (bytes([16, 0, 0, 0, 1, 1, 2, 2, 0]), 1, "don't fill"),
        (bytes([12, 0, 0, 0, 100, 1, 0]), 1, "don't fill"),
        (bytes([12, 0, 0, 0, 1, 100, 0]), 1, "don't fill"),
        (bytes([14, 0, 0, 0, 1, 1, 0, 0]), 1, "don't fill"),
        (bytes([20, 0, 0, 0]) + b"\xfe\xff\xff\xff\x0f" + bytes([1, 0]), 1, "don't fill"),
    ],
)
def test_invalid_records_are_refused(implementation: str, payload: bytes, count: int, reason: str) -> None:
    data = raw_batch(payload, count, base_offset=900)
    with pytest.raises(CorruptBatchError, match=rf"partition offset 900.*{reason}"):
        read(implementation, data)


@implementations
@pytest.mark.parametrize(("base", "last_delta"), [(-1, 9), (0, -1), (2**63 - 5, 9)])
def test_impossible_offsets_are_refused(implementation: str, base: int, last_delta: int) -> None:
    with pytest.raises(CorruptBatchError, match="offsets from"):
        read(implementation, raw_batch(SOUND, 1, base_offset=base, last_delta=last_delta))


@implementations
@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(implementation: str, codec: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"codec {codec} is not known"):
        read(implementation, raw_batch(SOUND, 1, attributes=codec))


@pytest.mark.lengthy
@implementations
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_decompression_bomb_stops_at_the_limit(implementation: str, codec: Compression) -> None:
    builder = BatchBuilder(compression=codec, base_offset=8)
    builder.append(bytes(40_000_000), timestamp=0)
    data = builder.build()
    assert len(data) < 4_000_000
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError, match=r"partition offset 8.*the limit of 1000000 bytes"):
            read(implementation, data, budget=DecompressionLimit(1_000_000))
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@implementations
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_size_equal_to_the_limit_is_allowed(implementation: str, codec: Compression) -> None:
    data = raw_batch(compress(codec, SOUND), 1, attributes=codec)
    assert len(read(implementation, data, budget=DecompressionLimit(len(SOUND)))) == 1
    with pytest.raises(CorruptBatchError, match="limit of 6 bytes"):
        read(implementation, data, budget=DecompressionLimit(len(SOUND) - 1))


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    builder = BatchBuilder(compression=draw(st.sampled_from(Compression)))
    content = st.none() | st.binary(max_size=200)
    for _ in range(draw(st.integers(1, 5))):
        builder.append(
            draw(content),
            key=draw(content),
            timestamp=draw(st.integers(0, 2**41)),
            headers=draw(st.lists(st.tuples(st.text(max_size=4), content), max_size=2)),
        )
    return bytes(builder.build())


@pytest.mark.lengthy
@implementations
@settings(max_examples=300)
@given(
    data=batches(), places=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_damage_is_noticed_or_harmless(
    implementation: str, data: bytes, places: list[tuple[int, int]]
) -> None:
    tampered = bytearray(data)
    for place, byte in places:
        tampered[place % len(tampered)] = byte
    for rechecked in (False, True):
        if rechecked:
            recheck(tampered)
        with suppress(DecodeError):
            read(implementation, tampered, budget=DecompressionLimit(1_000_000))


@pytest.mark.lengthy
@settings(max_examples=300)
@given(data=batches(), places=st.lists(st.tuples(st.integers(61), st.integers(0, 255)), max_size=4))
def test_implementations_report_the_same_damage(data: bytes, places: list[tuple[int, int]]) -> None:
    tampered = bytearray(data)
    for place, byte in places:
        tampered[place % len(tampered)] = byte
    recheck(tampered)
    results = set()
    for implementation in IMPLEMENTATIONS:
        try:
            results.add(repr(read(implementation, tampered, budget=DecompressionLimit(1_000_000))))
        except DecodeError as broken:
            results.add(str(broken))
    assert len(results) == 1


@pytest.mark.lengthy
@implementations
@given(payload=st.binary(max_size=80), count=st.integers(0, 12))
@settings(max_examples=300)
def test_random_records_with_a_valid_checksum(implementation: str, payload: bytes, count: int) -> None:
    with suppress(DecodeError):
        assert len(read(implementation, raw_batch(payload, count))) == count


@implementations
@pytest.mark.parametrize("codec", Compression)
def test_truncated_records(implementation: str, codec: Compression) -> None:
    builder = BatchBuilder(compression=codec)
    for number in range(3):
        builder.append(b"v" * 40, key=b"k", timestamp=number, headers=[("h", b"x")])
    whole = builder.build()
    for stop in range(61, len(whole)):
        cut = whole[:stop]
        cut[8:12] = (stop - 12).to_bytes(4, "big")
        recheck(cut)
        with pytest.raises(CorruptBatchError):
            read(implementation, cut)
