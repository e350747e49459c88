"""Converts records to Arrow: wraps the decoder's column buffers and adds the constant columns, if they are wanted.

Decides the types of the columns, as Spark wants them; the caller decides which records to add. No Python object is
created per record, and only timestamps are copied, since their unit changes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kshare.protocol.record_columns import BytesBuffers, ColumnBuffers, RecordColumns
from kshare.protocol.records import Batch

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""Spark refuses milliseconds and timestamps without a zone."""

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

Counted = tuple[int, int, int]
"""First and last offset of a range, and its delivery count."""


class RowBuilder:
    """Collects records of one partition, in the order of their offsets, into the wanted columns."""

    def __init__(self, topic: str, partition: int, columns: Sequence[str]) -> None:
        self._topic = pa.scalar(topic, pa.string())
        self._partition = partition
        self._wanted = tuple(columns)
        self._columns = RecordColumns()
        self._timestamp_types = array("i")
        self._ranges: list[Counted] = []

    @property
    def count(self) -> int:
        return self._columns.rows

    @property
    def size(self) -> int:
        """Bytes of keys, values and headers."""
        return self._columns.size

    def add(self, batch: Batch, ranges: Sequence[Counted]) -> None:
        """Adds the batch's records in these ranges, which are ascending and all overlap it."""
        rows = self._columns.append(batch.walk([(first, last) for first, last, _ in ranges]))
        self._timestamp_types.extend(array("i", [batch.has_append_time]) * rows)
        self._ranges.extend(ranges)

    def take(self) -> pa.RecordBatch:
        """Returns the columns in the wanted order, and starts over."""
        columns = self._columns.take()
        built = [self._build(name, columns) for name in self._wanted]
        self._timestamp_types, self._ranges = array("i"), []
        return pa.RecordBatch.from_arrays(built, names=list(self._wanted))

    def _build(self, name: str, columns: ColumnBuffers) -> pa.Array:
        match name:
            case "topic":
                return pa.repeat(self._topic, columns.rows)
            case "partition":
                return _numbers(array("i", [self._partition]) * columns.rows)
            case "timestampType":
                return _numbers(self._timestamp_types)
            case "deliveryCount":
                return _numbers(_delivery_counts(columns.offsets.cast("q"), self._ranges))
        return column_of_records(name, columns)


def column_of_records(name: str, columns: ColumnBuffers) -> pa.Array:
    """A column that comes from the records themselves."""
    match name:
        case "key":
            return _bytes(pa.binary(), columns.rows, columns.keys)
        case "value":
            return _bytes(pa.binary(), columns.rows, columns.values)
        case "offset":
            return _fixed(pa.int64(), columns.rows, columns.offsets)
        case "timestamp":
            milliseconds = _fixed(pa.timestamp("ms", tz="UTC"), columns.rows, columns.timestamps)
            return milliseconds.cast(TIMESTAMP, safe=False)
        case "headers":
            return _headers(columns)
    raise ValueError(f"there is no column {name}")


def _delivery_counts(offsets: Sequence[int], ranges: Sequence[Counted]) -> array[int]:
    """One per row. A range that spans two batches appears twice, and matches nothing the second time."""
    counts = array("i")
    for _, last, count in ranges:
        stop = bisect_right(offsets, last, lo=len(counts))
        counts.extend(array("i", [count]) * (stop - len(counts)))
    return counts


def _numbers(values: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)])


def _fixed(kind: pa.DataType, rows: int, buffer: memoryview) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(buffer)])


def _bytes(kind: pa.DataType, rows: int, column: BytesBuffers) -> pa.Array:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    return pa.Array.from_buffers(
        kind, rows, [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.contents)]
    )


def _headers(columns: ColumnBuffers) -> pa.Array:
    """Null for records without headers, as in Spark's Kafka source."""
    count = columns.header_count
    if not count:
        return pa.nulls(columns.rows, HEADERS)
    pairs = pa.StructArray.from_arrays(
        [
            _bytes(pa.string(), count, columns.header_names),
            _bytes(pa.binary(), count, columns.header_values),
        ],
        fields=list(HEADERS.value_type),
    )
    offsets = pa.py_buffer(columns.header_offsets)
    lists = pa.Array.from_buffers(HEADERS, columns.rows, [None, offsets], children=[pairs])
    _, is_there = pc.greater(pc.list_value_length(lists), 0).buffers()
    return pa.Array.from_buffers(HEADERS, columns.rows, [is_there, offsets], children=[pairs])
