"""Reading record batches: headers, records, offset ranges, and everything that brokers legitimately send."""

from __future__ import annotations

import gc
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.errors import CorruptBatchError
from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder, assign_append_time, assign_offset, build_end_marker
from kshare.protocol.record_header import HEADER, ControlType
from tests.helpers.batch_bytes import recheck
from tests.helpers.uncompiled import IMPLEMENTATIONS, Decoder, decoder

NOW = 1_700_000_000_000


@pytest.fixture(params=IMPLEMENTATIONS, scope="module")
def read(request: pytest.FixtureRequest) -> Any:
    loaded: Decoder = decoder(request.param)
    return loaded.records.read_batches


def batch_of(count: int, **options: Any) -> bytearray:
    builder = BatchBuilder(**options)
    for number in range(count):
        builder.append(b"value %d" % number, key=b"key %d" % number, timestamp=NOW + number)
    return builder.build()


def offsets(records: Any) -> list[int]:
    return [record.offset for record in records]


@pytest.mark.parametrize("codec", Compression)
def test_round_trip_of_a_batch(read: Any, codec: Compression) -> None:
    builder = BatchBuilder(
        compression=codec,
        base_offset=70,
        leader_epoch=3,
        producer_id=9,
        producer_epoch=2,
        base_sequence=11,
        is_transactional=True,
    )
    builder.append(b"one", key=b"k", timestamp=NOW, headers=[("a", b"1"), ("a", None), ("ü", b"")])
    builder.append(None, key=b"", timestamp=NOW - 5)
    builder.append(b"", key=None, timestamp=NOW + 100_000)
    builder.append(b"x" * 300, key=b"y" * 70_000, timestamp=NOW)
    data = builder.build()
    [batch] = read(data)
    assert (batch.base_offset, batch.last_offset, batch.record_count, batch.size) == (70, 73, 4, len(data))
    assert (batch.leader_epoch, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (3, 9, 2, 11)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW, NOW + 100_000)
    assert (batch.compression, batch.is_transactional, batch.is_control) == (codec, True, False)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch] == [
        (70, NOW, b"k", b"one", (("a", b"1"), ("a", None), ("ü", b""))),
        (71, NOW - 5, b"", None, ()),
        (72, NOW + 100_000, None, b"", ()),
        (73, NOW, b"y" * 70_000, b"x" * 300, ()),
    ]
    assert not any(r.has_append_time for r in batch)
    assert batch.values() == [b"one", None, b"", b"x" * 300]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_read(read: Any, kind: Any) -> None:
    data = kind(bytes(batch_of(3)))
    assert [r.value for batch in read(data) for r in batch] == [b"value 0", b"value 1", b"value 2"]


@pytest.mark.lengthy
def test_records_keep_the_buffer_alive(read: Any) -> None:
    data = batch_of(50, compression=Compression.LZ4)
    records = [record for batch in read(data) for record in batch]
    del data
    gc.collect()
    assert [record.value for record in records] == [b"value %d" % n for n in range(50)]


def test_compiled_records_are_not_tracked_by_the_garbage_collector() -> None:
    if "compiled" in IMPLEMENTATIONS:
        [batch] = decoder("compiled").records.read_batches(batch_of(1))
        assert not any(gc.is_tracked(record) for record in batch)


def test_truncated_last_batch_is_left_out(read: Any) -> None:
    first, second = batch_of(3), batch_of(4, base_offset=3)
    for cut in range(len(second)):
        batches = list(read(bytes(first + second[:cut])))
        assert [batch.base_offset for batch in batches] == [0]
        assert len(list(batches[0])) == 3
    assert [batch.base_offset for batch in read(first + second)] == [0, 3]
    assert list(read(b"")) == []


def test_compacted_batch_has_gaps(read: Any) -> None:
    builder = BatchBuilder(base_offset=100)
    builder.append(b"a", timestamp=NOW, offset=102)
    builder.append(b"b", timestamp=NOW, offset=150)
    [batch] = read(builder.build(last_offset=199))
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (100, 199, 2)
    assert offsets(batch) == [102, 150]
    assert offsets(batch.records([(0, 101), (103, 149), (151, 900)])) == []
    assert offsets(batch.records([(150, 150)])) == [150]


@pytest.mark.parametrize("codec", Compression)
def test_batch_without_records_after_compaction(read: Any, codec: Compression) -> None:
    [batch] = read(BatchBuilder(base_offset=5, compression=codec).build(last_offset=8))
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (5, 8, 0)
    assert list(batch) == []
    assert list(batch.records([(5, 8)])) == []


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([(1000, 1299)], list(range(1000, 1300))),
        ([(0, 5000)], list(range(1000, 1300))),
        ([(1003, 1005)], [1003, 1004, 1005]),
        ([(900, 1001), (1200, 1201), (1299, 1400)], [1000, 1001, 1200, 1201, 1299]),
        ([(0, 999), (1300, 1301)], []),
        ([(-5, -1), (1000, 1000)], [1000]),
        ([(1298, 2**63 - 1)], [1298, 1299]),
    ],
)
def test_only_records_in_the_given_ranges_are_returned(
    read: Any, ranges: list[tuple[int, int]], expected: list[int]
) -> None:
    [batch] = read(batch_of(300, base_offset=1000))
    assert offsets(batch.records(ranges)) == expected
    assert batch.values(ranges) == [b"value %d" % (offset - 1000) for offset in expected]


def test_records_after_the_last_range_are_not_parsed(read: Any) -> None:
    data = batch_of(10)
    at = data.index(b"value 7")
    data[at - 1] = 99
    recheck(data)
    [batch] = read(data)
    assert offsets(batch.records([(0, 5)])) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(CorruptBatchError):
        list(batch)


def test_a_later_range_is_not_read_from_the_start_of_the_batch(read: Any) -> None:
    """Thousands of single offsets of one batch would take time for each that grows with their number."""
    data = batch_of(10)
    [batch] = read(data)
    assert offsets(batch.records([(3, 3)])) == [3]
    data[HEADER.size] = 0x01  # the first record's length
    assert offsets(batch.records([(4, 4)])) == [4]
    assert offsets(batch.records([(6, 7), (9, 9)])) == [6, 7, 9]
    with pytest.raises(CorruptBatchError):
        list(batch.records([(2, 3)]))


def test_ranges_outside_of_a_batch_have_no_records_after_another_walk(read: Any) -> None:
    builder = BatchBuilder()
    builder.append(b"", timestamp=NOW, offset=2)  # compaction removed the first two
    [batch] = read(builder.build(last_offset=4))
    assert offsets(batch.records([(0, 0)])) == []
    assert offsets(batch.records([(5, 9)])) == []
    assert offsets(batch.records([])) == []
    assert offsets(batch.records([(0, 3)])) == [2]


@pytest.mark.lengthy
@given(
    ranges=st.lists(
        st.lists(st.integers(-2, 45), min_size=2, max_size=6, unique=True).map(sorted), min_size=2, max_size=8
    ),
    taken=st.lists(st.integers(0, 50), min_size=8, max_size=8),
)
def test_walks_over_parts_of_a_batch_do_not_depend_on_earlier_ones(
    read: Any, ranges: list[list[int]], taken: list[int]
) -> None:
    kept = [offset for offset in range(40) if offset % 7]  # compaction removed the others
    builder = BatchBuilder()
    for offset in kept:
        builder.append(b"", timestamp=NOW, offset=offset)
    [batch] = read(builder.build(last_offset=42))
    for bounds, count in zip(ranges, taken, strict=False):
        spans = list(zip(bounds[::2], bounds[1::2], strict=False))
        expected = [offset for offset in kept if any(first <= offset <= last for first, last in spans)]
        assert offsets(islice(batch.records(spans), count)) == expected[:count]


def test_append_time_applies_to_every_record(read: Any) -> None:
    data = batch_of(3, compression=Compression.ZSTD)
    assign_append_time(data, NOW + 777)
    [batch] = read(data)
    assert batch.has_append_time
    assert [(r.timestamp, r.has_append_time) for r in batch] == [(NOW + 777, True)] * 3


def test_assigned_offset_and_leader_epoch_keep_the_checksum(read: Any) -> None:
    data = batch_of(3)
    checksum = data[17:21]
    assign_offset(data, 2**40, 8)
    [batch] = read(data)
    assert data[17:21] == checksum
    assert batch.leader_epoch == 8
    assert offsets(batch) == [2**40, 2**40 + 1, 2**40 + 2]


@pytest.mark.parametrize("base", [-1, 0, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("other", [-1, 0, 2**63 - 1, -(2**63)])
def test_timestamp_deltas_wrap_as_in_java(read: Any, base: int, other: int) -> None:
    builder = BatchBuilder()
    builder.append(b"", timestamp=base)
    builder.append(b"", timestamp=other)
    [batch] = read(builder.build())
    assert [record.timestamp for record in batch] == [base, other]


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_control_batches(read: Any, kind: ControlType) -> None:
    data = build_end_marker(kind, producer_id=4, producer_epoch=1, timestamp=NOW, base_offset=33)
    [batch] = read(data)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4, 1, -1)
    assert batch.control_type is kind
    assert offsets(batch) == [33]


def test_unknown_control_type_is_a_number(read: Any) -> None:
    builder = BatchBuilder(is_control=True)
    builder.append(b"", key=b"\x00\x00\x00\x63", timestamp=NOW)
    [batch] = read(builder.build())
    assert batch.control_type == 99


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_control_batch_without_a_marker(read: Any, key: bytes | None) -> None:
    builder = BatchBuilder(is_control=True)
    builder.append(b"", key=key, timestamp=NOW)
    [batch] = read(builder.build())
    with pytest.raises(CorruptBatchError, match="without a marker"):
        _ = batch.control_type


def test_reprs(read: Any) -> None:
    [batch] = read(batch_of(1, base_offset=6))
    [record] = batch
    assert repr(record) == "Record(offset=6, key=b'key 0', value=b'value 0', headers=())"
    assert "base_offset=6" in repr(batch)


def test_malformed_header_name_is_decoded_as_in_java(read: Any) -> None:
    builder = BatchBuilder()
    builder.append(b"", timestamp=NOW, headers=[("ab", b"x")])
    data = builder.build()
    at = data.index(b"ab")
    data[at] = 0xFF
    recheck(data)
    [batch] = read(data)
    assert [record.headers for record in batch] == [(("\ufffdb", b"x"),)]


def test_some_of_the_headers_are_read_without_the_others(read: Any) -> None:
    named = [("own.a", b"1"), ("ow", None), ("own.b", None), ("own.c", b"3")]
    builder = BatchBuilder()
    builder.append(b"", timestamp=NOW, headers=[("x", b"y"), *named])
    ((record,),) = read(builder.build())
    assert record.header_count == 5
    assert record.some_headers(2) == (("x", b"y"), ("own.a", b"1"))
    assert record.some_headers(2, b"own.") == (("x", b"y"), *named[:1], *named[2:])
    assert record.some_headers(1, b"own.") == (("x", b"y"), ("own.a", b"1"))
    assert record.some_headers(9, b"own.") == record.some_headers(9) == record.headers
    assert record.some_headers(0) == ()
