"""Converts records to Arrow: wraps the decoder's column buffers and adds the constant columns.

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
    """Collects records of one partition, in the order of their offsets, into columns."""

    def __init__(
        self, topic: str, partition: int, *, include_headers: bool = False, delivery_count: bool = False
    ) -> None:
        self._topic = pa.scalar(topic, pa.string())
        self._partition = partition
        self._include_headers = include_headers
        self._delivery_count = delivery_count
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
        """Returns the columns, in the order of `kshare.spark.schema`, and starts over."""
        columns = self._columns.take()
        found = record_batch(columns, include_headers=self._include_headers)
        rows = found.num_rows
        arrays = {
            "key": found["key"],
            "value": found["value"],
            "topic": pa.repeat(self._topic, rows),
            "partition": _numbers(array("i", [self._partition]) * rows),
            "offset": found["offset"],
            "timestamp": found["timestamp"],
            "timestampType": _numbers(self._timestamp_types),
        }
        if self._include_headers:
            arrays["headers"] = found["headers"]
        if self._delivery_count:
            arrays["deliveryCount"] = _numbers(_delivery_counts(columns.offsets.cast("q"), self._ranges))
        self._timestamp_types, self._ranges = array("i"), []
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def record_batch(columns: ColumnBuffers, *, include_headers: bool = True) -> pa.RecordBatch:
    """The columns that come from the records themselves: offset, timestamp, key, value, headers."""
    rows = columns.rows
    milliseconds = _fixed(pa.timestamp("ms", tz="UTC"), rows, columns.timestamps)
    arrays = {
        "offset": _fixed(pa.int64(), rows, columns.offsets),
        "timestamp": milliseconds.cast(TIMESTAMP, safe=False),
        "key": _bytes(pa.binary(), rows, columns.keys),
        "value": _bytes(pa.binary(), rows, columns.values),
    }
    if include_headers:
        arrays["headers"] = _headers(columns)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


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
