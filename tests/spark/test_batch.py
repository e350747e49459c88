"""Batch DataFrames in a Spark: views, leases, what errors look like, and the guide's examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import kshare.spark
from kshare.spark.schema import spark_schema
from kshare.testing import Broker

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"


def options(broker: Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "group": f"of-{topic}", "subscribe": topic}


def fill(broker: Broker, topic: str, group: str | None = None) -> None:
    """Two partitions of a hundred records."""
    broker.create_topic(topic, 2)
    broker.set_group_config(group or f"of-{topic}", {"share.auto.offset.reset": "earliest"})
    for partition in range(2):
        values = [b"%d" % number for number in range(100)]
        broker.produce(topic, values, partition=partition, key=b"k", headers=[("h", b"1")])


def places(frame: DataFrame) -> list[tuple[int, int]]:
    rows = frame.select("partition", "offset").orderBy("partition", "offset").collect()
    return [(row["partition"], row["offset"]) for row in rows]


EXPECTED = [(partition, offset) for partition in range(2) for offset in range(100)]


def test_a_view_is_a_dataframe_like_any_other(spark: SparkSession, orders_broker: Broker) -> None:
    fill(orders_broker, "batch-view")
    given = {**options(orders_broker, "batch-view"), "includeHeaders": "true", "deliveryCount": "true"}
    frame = spark.read.format("kshare").options(**given, minPartitions="3").load()
    assert frame.schema == spark_schema(include_headers=True, delivery_count=True)
    assert frame.rdd.getNumPartitions() == 4
    assert places(frame) == EXPECTED
    orders_broker.produce("batch-view", [b"later"])
    assert frame.join(frame, ["partition", "offset"]).count() == 200
    row = frame.where("offset = 7 and partition = 1").collect()[0]
    assert (bytes(row["key"]), bytes(row["value"]), row["topic"]) == (b"k", b"7", "batch-view")
    assert (row["timestampType"], row["deliveryCount"]) == (0, 0)
    assert [(one["key"], bytes(one["value"])) for one in row["headers"]] == [("h", b"1")]
    assert row["timestamp"].year >= 2020


def test_a_lease_is_used_many_times_and_ends(spark: SparkSession, orders_broker: Broker) -> None:
    fill(orders_broker, "batch-lease")
    given = {**options(orders_broker, "batch-lease"), "deliveryCount": "true"}
    with kshare.spark.lease(spark, given) as lease:
        frame = lease.dataframe()
        assert places(frame) == EXPECTED
        assert places(frame.where("deliveryCount = 1")) == EXPECTED
        same = spark.read.format("kshare").option("lease", lease.token).load()
        assert same.schema == frame.schema
        assert same.count() == lease.count == 200
    with pytest.raises(Exception, match="lease on records of group of-batch-lease has ended"):
        frame.count()
    assert spark.read.format("kshare").options(**options(orders_broker, "batch-lease")).load().count() == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"subscribe": ""}, "names no topic: write option"),
        ({"startingOffsets": "earliest"}, "a share group has no starting offsets of a query's own"),
        ({"settle": "sink"}, "settle is for streams"),
        ({"lease": "nonsense"}, "lease and .* exclude each other"),
        ({"subscribe": "no-such-topic"}, "topic no-such-topic: UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_errors_say_what_to_write(
    spark: SparkSession, orders_broker: Broker, wrong: dict[str, str], message: str
) -> None:
    given = {**options(orders_broker, "batch-errors"), **wrong}
    with pytest.raises(Exception, match=message) as caught:
        spark.read.format("kshare").options(**given).load().count()
    assert "Py4J" not in str(caught.value)


def test_the_guides_examples(spark: SparkSession, orders_broker: Broker, tmp_path: Path) -> None:
    fill(orders_broker, "orders", "shipping")
    for group in ("packing", "judging", "archive"):
        orders_broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    blocks = re.findall(
        r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    names: dict[str, Any] = {"spark": spark, "folder": str(tmp_path)}
    for block in blocks:
        exec(block.replace("localhost:9092", orders_broker.bootstrap), names)
    for query in ("judging", "stored"):
        assert names[query].awaitTermination(150)
    names["query"].stop()
    assert spark.read.parquet(f"{tmp_path}/archive").count() == 200
    assert names["by_partition"] == [(0, 100), (1, 100)] or names["by_partition"] == [(1, 100), (0, 100)]
    assert names["values"] == [b"%d" % number for number in range(100)] * 2
