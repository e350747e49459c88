"""Record columns have the same contents as records, in Arrow's layout."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshare.errors import CorruptBatchError
from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder
from tests.helpers.batch_bytes import raw_batch
from tests.helpers.uncompiled import IMPLEMENTATIONS, decoder

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

implementations = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
contents = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.text(max_size=4), contents), max_size=3)
rows = st.lists(st.tuples(contents, contents, headers), min_size=1, max_size=20)


def strings(column: Any, count: int) -> list[bytes | None]:
    """A column of byte strings as Arrow reads it."""
    ends = column.offsets.cast("i")
    assert len(ends) == count + 1
    valid = column.validity
    return [
        bytes(column.contents[start:end]) if valid is None or valid[n >> 3] >> (n & 7) & 1 else None
        for n, (start, end) in enumerate(itertools.pairwise(ends))
    ]


def rows_of(taken: Any) -> list[Row]:
    names = [(name or b"").decode() for name in strings(taken.header_names, taken.header_count)]
    pairs = list(zip(names, strings(taken.header_values, taken.header_count), strict=True))
    bounds = list(itertools.pairwise(taken.header_offsets.cast("i")))
    parts = (
        taken.offsets.cast("q"),
        taken.timestamps.cast("q"),
        strings(taken.keys, taken.rows),
        strings(taken.values, taken.rows),
        [tuple(pairs[start:end]) for start, end in bounds],
    )
    assert {len(part) for part in parts} == {taken.rows}
    return list(zip(*parts, strict=True))


def batch_of(contents: Sequence[Any], base_offset: int, codec: Compression) -> bytearray:
    builder = BatchBuilder(base_offset=base_offset, compression=codec)
    for number, (key, value, pairs) in enumerate(contents):
        builder.append(value, key=key, headers=pairs, timestamp=1000 + 7 * number)
    return builder.build()


@pytest.mark.lengthy
@implementations
@settings(max_examples=60)
@given(batches=st.lists(rows, max_size=4), codec=st.sampled_from(Compression), data=st.data())
def test_columns_have_the_contents_of_the_records(
    implementation: str, batches: list[Any], codec: Compression, data: st.DataObject
) -> None:
    loaded = decoder(implementation)
    columns = loaded.record_columns.RecordColumns()
    expected: list[Row] = []
    position = 0
    for contents in batches:
        [batch] = loaded.records.read_batches(batch_of(contents, position, codec))
        position += len(contents)
        first = data.draw(st.integers(batch.base_offset, batch.last_offset))
        ranges = data.draw(st.sampled_from([None, [(first, batch.last_offset)], [(0, first)]]))
        wanted = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records(ranges)]
        assert columns.append(batch.walk(ranges)) == len(wanted)
        expected += wanted
    assert columns.rows == len(expected)
    assert columns.size == sum(
        len(key or b"") + len(value or b"") + sum(len(name.encode()) + len(x or b"") for name, x in pairs)
        for _, _, key, value, pairs in expected
    )
    assert rows_of(columns.take()) == expected
    assert rows_of(columns.take()) == []


@implementations
def test_taken_columns_do_not_change_later(implementation: str) -> None:
    loaded = decoder(implementation)
    columns = loaded.record_columns.RecordColumns()
    [batch] = loaded.records.read_batches(batch_of([(b"k", b"v" * 1000, [])] * 50, 0, Compression.LZ4))
    columns.append(batch.walk())
    taken = columns.take()
    for _ in range(50):
        columns.append(batch.walk())
    assert [row[0] for row in rows_of(taken)] == list(range(50))
    assert len(rows_of(columns.take())) == 2500


@implementations
def test_columns_stay_consistent_when_a_batch_is_corrupt(implementation: str) -> None:
    loaded = decoder(implementation)
    columns = loaded.record_columns.RecordColumns()
    good, bad = bytes([14, 0, 0, 0, 1, 2, 97, 0]), bytes([14, 0, 0, 2, 1, 9, 97, 0])
    [batch] = loaded.records.read_batches(raw_batch(good + bad, 2))
    with pytest.raises(CorruptBatchError) as caught:
        columns.append(batch.walk())
    [batch] = loaded.records.read_batches(
        batch_of([(None, b"b" * 500, [("h", None)])] * 30, 100, Compression.NONE)
    )
    assert columns.append(batch.walk()) == 30
    assert [row[0] for row in rows_of(columns.take())] == [0, *range(100, 130)]
    assert caught.value.base_offset == 0


@implementations
def test_invalid_utf8_in_header_names_is_replaced(implementation: str) -> None:
    loaded = decoder(implementation)
    columns = loaded.record_columns.RecordColumns()
    record = bytes([0, 0, 0, 1, 1, 4, 4, 0xFF, 0xFE, 1, 4, 0xC3, 0xBC, 2, 120])
    [batch] = loaded.records.read_batches(raw_batch(bytes([2 * len(record)]) + record, 1))
    columns.append(batch.walk())
    assert rows_of(columns.take()) == [(0, 0, None, None, (("\ufffd\ufffd", None), ("ü", b"x")))]
