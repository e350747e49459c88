"""Columns of the sink: which are refused, and what becomes of the others."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kshare.errors import ConfigError
from kshare.spark.sink.row_columns import Row, check_columns, rows_of

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
ARROW_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_all_columns_of_the_sink_are_allowed() -> None:
    everything = schema(
        key=BinaryType(),
        value=StringType(),
        headers=HEADERS,
        topic=StringType(),
        partition=IntegerType(),
        timestamp=TimestampType(),
    )
    check_columns(everything, None)
    check_columns(schema(value=BinaryType()), "orders")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": StringType()}, "the column value is missing"),
        ({"value": LongType()}, "column value must be string or binary, not bigint: cast it"),
        ({"value": StringType(), "offset": LongType()}, "column offset can't be written: .* Select those"),
        ({"value": StringType(), "partition": LongType()}, "partition must be int, not bigint"),
        ({"value": StringType(), "timestamp": TimestampNTZType()}, "timestamp must be timestamp"),
        ({"value": StringType(), "headers": StringType()}, "must be array<struct<key:string,value:binary>>"),
        ({"value": StringType(), "headers": ArrayType(StringType())}, "must be array<struct"),
    ],
)
def test_other_columns_are_refused(columns: dict[str, DataType], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_columns(schema(**columns), "orders")


def test_a_topic_is_needed_and_columns_are_unique() -> None:
    with pytest.raises(ConfigError, match="neither an option nor a column topic"):
        check_columns(schema(value=StringType()), None)
    twice = StructType([StructField("value", StringType()), StructField("value", StringType())])
    with pytest.raises(ConfigError, match="there are 2 columns value"):
        check_columns(twice, "orders")


@pytest.mark.parametrize("kinds", [(pa.string(), pa.binary()), (pa.large_string(), pa.large_binary())])
def test_rows(kinds: tuple[pa.DataType, pa.DataType]) -> None:
    text, raw = kinds
    batch = pa.record_batch(
        {
            "key": pa.array(["ä", None], text),
            "value": pa.array([None, b"\xff"], raw),
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}, {"key": "g", "value": None}], None], ARROW_HEADERS
            ),
            "topic": pa.array(["orders", None]),
            "partition": pa.array([3, None], pa.int32()),
            "timestamp": pa.array(
                [datetime(2026, 1, 2, microsecond=3999, tzinfo=UTC), None], pa.timestamp("us", tz="UTC")
            ),
        }
    )
    first: Row = ("orders", 3, "ä".encode(), None, (("h", b"1"), ("g", None)), 1_767_312_000_003)
    second: Row = (None, None, None, b"\xff", (), None)
    assert list(rows_of(batch, None)) == [first, second]
    assert [row[0] for row in rows_of(batch, "shipped")] == ["shipped"] * 2
    assert list(rows_of(batch.slice(1), None)) == [second]
