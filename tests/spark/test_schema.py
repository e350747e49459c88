"""The columns that a user may select with `.schema(...)`: any of ours, in any order, with their own types."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import kshare.spark
from kshare.errors import ConfigError
from kshare.spark.schema import selected_columns, spark_schema
from kshare.testing import Broker
from tests.spark.queries import Rig

WHOLE = spark_schema()


def schema(*fields: StructField) -> StructType:
    return StructType([*fields])


def test_any_columns_in_any_order() -> None:
    assert selected_columns(WHOLE, WHOLE) == tuple(WHOLE.fieldNames())
    assert selected_columns(schema(WHOLE["offset"], WHOLE["key"]), WHOLE) == ("offset", "key")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (schema(), r"names no column: .* the columns are key BINARY, .* offset BIGINT"),
        (schema(WHOLE["key"], WHOLE["key"]), "column key twice"),
        (schema(StructField("Value", StringType())), r"column Value, .* did you mean value\?"),
        (schema(StructField("x", StringType())), "column x, .* the columns are key BINARY"),
        (schema(StructField("headers", StringType())), r'option\("includeHeaders", "true"\)'),
        (schema(StructField("deliveryCount", IntegerType())), r'option\("deliveryCount", "true"\)'),
        (schema(StructField("value", StringType())), "column value the type STRING, but it is BINARY"),
        (schema(StructField("offset", LongType(), nullable=False)), "column offset is NOT NULL"),
    ],
)
def test_errors_say_what_to_write(wanted: StructType, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        selected_columns(wanted, WHOLE)


def test_views_leases_and_streams_have_the_selected_columns(
    any_spark: SparkSession, orders_broker: Broker, tmp_path: Path
) -> None:
    rig = Rig(any_spark, orders_broker, tmp_path)
    rig.produce(5)
    written = "value BINARY, deliveryCount INT, offset LONG"
    options = {**rig.options(), "deliveryCount": "true"}
    view = any_spark.read.format("kshare").schema(written).options(**options).load()
    assert view.columns == ["value", "deliveryCount", "offset"]
    expected = [(str(number).encode(), 1, number) for number in range(5)]
    assert [(bytes(row[0]), row[1] + 1, row[2]) for row in view.orderBy("offset").collect()] == expected
    with kshare.spark.lease(any_spark, rig.options(), max_records=5, max_wait=60) as lease:
        reader = any_spark.read.format("kshare").schema("offset LONG").option("lease", lease.token)
        assert sorted(row.asDict()["offset"] for row in reader.load().collect()) == [*range(5)]
    rig.produce(3)
    stream = (
        any_spark.readStream.format("kshare").schema("offset LONG, topic STRING").options(**rig.options())
    )
    folder = tmp_path / "written"
    query = (
        stream.load()
        .writeStream.format("json")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder))
    )
    assert query.awaitTermination(150), "the query didn't end in time"
    found = any_spark.read.schema("offset LONG, topic STRING").json(str(folder)).collect()
    assert sorted((row.asDict()["offset"], row.asDict()["topic"]) for row in found) == [
        (offset, rig.topic) for offset in (5, 6, 7)
    ]


def test_another_type_is_refused_before_anything_is_read(
    spark: SparkSession, orders_broker: Broker, tmp_path: Path
) -> None:
    rig = Rig(spark, orders_broker, tmp_path)
    reader = spark.read.format("kshare").schema("value STRING").options(**rig.options())
    with pytest.raises(Exception, match="column value the type STRING, but it is BINARY"):
        reader.load().collect()
