"""Wraps the decoder's column buffers as Arrow arrays: nothing is copied but timestamps, which change their unit.

Decides the columns' names and types, as Spark wants them; which records are in them is decided by whoever fills them.
"""

from __future__ import annotations

import pyarrow as pa

from kshare.protocol.record_columns import BytesBuffers, ColumnBuffers

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""Spark refuses milliseconds and timestamps without a zone."""

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def record_batch(columns: ColumnBuffers) -> pa.RecordBatch:
    """offset, timestamp, key, value, headers."""
    rows = columns.rows
    milliseconds = _fixed(pa.timestamp("ms", tz="UTC"), rows, columns.timestamps)
    return pa.RecordBatch.from_arrays(
        [
            _fixed(pa.int64(), rows, columns.offsets),
            milliseconds.cast(TIMESTAMP, safe=False),
            _bytes(pa.binary(), rows, columns.keys),
            _bytes(pa.binary(), rows, columns.values),
            _headers(columns),
        ],
        names=["offset", "timestamp", "key", "value", "headers"],
    )


def _fixed(kind: pa.DataType, rows: int, buffer: memoryview) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(buffer)])


def _bytes(kind: pa.DataType, rows: int, column: BytesBuffers) -> pa.Array:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    return pa.Array.from_buffers(
        kind, rows, [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.contents)]
    )


def _headers(columns: ColumnBuffers) -> pa.Array:
    count = columns.header_count
    pairs = pa.StructArray.from_arrays(
        [
            _bytes(pa.string(), count, columns.header_names),
            _bytes(pa.binary(), count, columns.header_values),
        ],
        fields=list(HEADERS.value_type),
    )
    offsets = pa.py_buffer(columns.header_offsets)
    return pa.Array.from_buffers(HEADERS, columns.rows, [None, offsets], children=[pairs])
