"""The decoder's columns as Arrow arrays, with the types that Spark accepts."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.record_columns import ColumnBuffers, RecordColumns
from kshare.protocol.records import read_batches
from kshare.spark.executor.arrow import RowBuilder, column_of_records
from tests.helpers.uncompiled import IMPLEMENTATIONS, decoder

FROM_RECORDS = ("offset", "timestamp", "key", "value", "headers")


def record_batch(columns: ColumnBuffers) -> pa.RecordBatch:
    arrays = [column_of_records(name, columns) for name in FROM_RECORDS]
    return pa.RecordBatch.from_arrays(arrays, names=list(FROM_RECORDS))


@pytest.mark.lengthy
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_records_become_an_arrow_batch(implementation: str) -> None:
    loaded = decoder(implementation)
    builder = BatchBuilder(base_offset=40)
    builder.append(b"one", key=None, timestamp=1_700_000_000_123, headers=[("ü", b"1"), ("b", None)])
    builder.append(None, key=b"k", timestamp=0)
    columns = loaded.record_columns.RecordColumns()
    for batch in loaded.records.read_batches(builder.build()):
        columns.append(batch.walk())
    arrow = record_batch(columns.take())
    arrow.validate(full=True)
    assert arrow.schema == pa.schema(
        [
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert arrow.to_pylist() == [
        {
            "offset": 40,
            "timestamp": epoch + datetime.timedelta(milliseconds=1_700_000_000_123),
            "key": None,
            "value": b"one",
            "headers": [{"key": "ü", "value": b"1"}, {"key": "b", "value": None}],
        },
        {"offset": 41, "timestamp": epoch, "key": b"k", "value": None, "headers": None},
    ]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_no_records_at_all(implementation: str) -> None:
    arrow = record_batch(decoder(implementation).record_columns.RecordColumns().take())
    arrow.validate(full=True)
    assert arrow.num_rows == 0


def test_only_the_wanted_columns_are_built_in_their_order() -> None:
    builder = BatchBuilder(base_offset=40)
    builder.append(b"one", timestamp=0)
    builder.append(b"two", timestamp=0)
    rows = RowBuilder("orders", 3, ["deliveryCount", "offset", "topic"])
    for batch in read_batches(builder.build()):
        rows.add(batch, [(40, 40, 1), (41, 41, 2)])
    taken = rows.take()
    assert taken.schema.names == ["deliveryCount", "offset", "topic"]
    assert taken.to_pydict() == {"deliveryCount": [1, 2], "offset": [40, 41], "topic": ["orders", "orders"]}
    assert rows.take().num_rows == 0


def test_an_unknown_column_is_an_error() -> None:
    with pytest.raises(ValueError, match="no column size"):
        column_of_records("size", RecordColumns().take())
