"""Batch DataFrames in Spark: views, leases, error messages, and the guide's examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import kshare.spark
from kshare.spark.schema import spark_schema
from kshare.testing import Broker
from tests.spark.guide import GUIDE, WITH_JARS
from tests.spark.kinds_of_sessions import mostly_classic
from tests.spark.queries import eventually


def options(broker: Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "group": f"of-{topic}", "subscribe": topic}


def topic_of(spark: SparkSession, name: str) -> str:
    """Each kind of session uses its own topics."""
    return f"{name}-{'connect' if 'connect' in type(spark).__module__ else 'classic'}"


def fill(broker: Broker, topic: str, group: str | None = None) -> None:
    """Create a topic with two partitions of a hundred records."""
    broker.create_topic(topic, 2)
    broker.set_group_config(group or f"of-{topic}", {"share.auto.offset.reset": "earliest"})
    for partition in range(2):
        values = [b"%d" % number for number in range(100)]
        broker.produce(topic, values, partition=partition, key=b"k", headers=[("h", b"1")])


def view(spark: SparkSession, given: dict[str, str], **more: str) -> DataFrame:
    return spark.read.format("kshare").options(**given, **more).load()


def places(frame: DataFrame) -> list[tuple[int, int]]:
    rows = frame.select("partition", "offset").orderBy("partition", "offset").collect()
    return [(row["partition"], row["offset"]) for row in rows]


EXPECTED = [(partition, offset) for partition in range(2) for offset in range(100)]


def test_a_view_is_a_dataframe_like_any_other(any_spark: SparkSession, orders_broker: Broker) -> None:
    topic = topic_of(any_spark, "batch-view")
    fill(orders_broker, topic)
    frame = view(any_spark, options(orders_broker, topic), minPartitions="3")
    assert frame.selectExpr("spark_partition_id() AS task").distinct().count() == 3
    assert places(frame) == EXPECTED
    orders_broker.produce(topic, [b"later"])
    assert frame.join(frame, ["partition", "offset"]).count() == 200


def test_every_type_of_column(any_spark: SparkSession, orders_broker: Broker) -> None:
    topic = topic_of(any_spark, "batch-types")
    orders_broker.create_topic(topic, 1)
    orders_broker.set_group_config(f"of-{topic}", {"share.auto.offset.reset": "earliest"})
    large = bytes(range(256)) * 2000
    sent: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (None, b"bare", []),
        (b"tombstone", None, [("h", None), ("h", b""), ("\u00e4", b"\xff\x00")]),
        (b"", b"", []),
        (b"large", large, [("trace", b"1")]),
    ]
    for key, value, headers in sent:
        orders_broker.produce(topic, [value], key=key, headers=headers)
    given = {**options(orders_broker, topic), "INCLUDEHEADERS": "True", "deliverycount": "true"}
    frame = view(any_spark, given)
    # Spark Connect has different classes, so schemas are compared as JSON.
    assert frame.schema.jsonValue() == spark_schema(include_headers=True, delivery_count=True).jsonValue()
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("offset").collect()
    stamps = [record.timestamp for record in orders_broker.records(topic)]
    found = [
        (row["key"], row["value"], [(header["key"], header["value"]) for header in row["headers"] or []])
        for row in rows
    ]
    assert found == sent
    assert [row["headers"] is None for row in rows] == [True, False, True, False]
    assert [row["ms"] for row in rows] == stamps
    assert {(row["topic"], row["partition"], row["timestampType"], row["deliveryCount"]) for row in rows} == {
        (topic, 0, 0, 0)
    }


def test_records_removed_by_retention_fail_the_view_or_are_left_out(
    any_spark: SparkSession, orders_broker: Broker
) -> None:
    topic = topic_of(any_spark, "batch-gone")
    orders_broker.create_topic(topic, 1)
    orders_broker.set_group_config(f"of-{topic}", {"share.auto.offset.reset": "earliest"})
    orders_broker.produce(topic, [b"old"] * 30)
    orders_broker.produce(topic, [b"new"] * 70)
    given = options(orders_broker, topic)
    strict, lenient = (view(any_spark, given, failOnDataLoss=flag) for flag in ("true", "false"))
    assert strict.count() == lenient.count() == 100
    orders_broker.call(lambda: orders_broker.state.cluster.partition(topic, 0).log.delete_before(30))
    with pytest.raises(Exception, match=r"offsets 0 to 29 \(30 in all\) are gone"):
        strict.count()
    assert lenient.count() == 70


def test_a_lease_is_read_repeatedly_and_ends(any_spark: SparkSession, orders_broker: Broker) -> None:
    topic = topic_of(any_spark, "batch-lease")
    fill(orders_broker, topic)
    given = {**options(orders_broker, topic), "deliveryCount": "true"}
    with kshare.spark.lease(any_spark, given) as lease:
        frame = lease.dataframe()
        assert places(frame) == EXPECTED
        assert places(frame.where("deliveryCount = 1")) == EXPECTED
        same = any_spark.read.format("kshare").option("lease", lease.token).load()
        assert same.schema == frame.schema
        assert same.count() == lease.count == 200
    with pytest.raises(Exception, match=f"lease on records of group of-{topic} has ended"):
        frame.count()
    assert view(any_spark, options(orders_broker, topic)).count() == 0


@mostly_classic
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"subscribe": ""}, "names no topic: write option"),
        ({"startingOffsets": "earliest"}, "starting offsets belong to the share group"),
        ({"settle": "sink"}, "settle is for streams"),
        ({"gruop": "x"}, r"did you mean group\?"),
        ({"minPartitions": "none"}, "minPartitions must be a whole number"),
        ({"lease": "nonsense"}, "lease and .* exclude each other"),
        ({"subscribe": "no-such-topic"}, "topic no-such-topic does not exist: check the option subscribe"),
    ],
)
def test_errors_say_what_to_write(
    any_spark: SparkSession, orders_broker: Broker, wrong: dict[str, str], message: str
) -> None:
    given = {**options(orders_broker, "batch-errors"), **wrong}
    with pytest.raises(Exception, match=message) as caught:
        view(any_spark, given).count()
    assert "Py4J" not in str(caught.value)


def test_a_frame_that_is_used_twice_is_whole(spark: SparkSession, orders_broker: Broker) -> None:
    """If the source took filters, Spark 4.3 would apply them to each use of the frame."""
    fill(orders_broker, "reused")
    frame = view(spark, options(orders_broker, "reused"))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        count, of_one = frame.count(), frame.where("partition = 1").count()
        assert 0 < of_one < count
        assert frame.union(frame.where("partition = 1")).count() == count + of_one
        assert frame.count() == count
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_user_schema_is_refused(any_spark: SparkSession, orders_broker: Broker) -> None:
    reader = any_spark.read.format("kshare").options(**options(orders_broker, "batch-errors"))
    with pytest.raises(Exception, match="gives the column value the type STRING, but it is BINARY"):
        reader.schema("value string").load().count()


@mostly_classic
def test_the_guides_examples(any_spark: SparkSession, tmp_path: Path) -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    names: dict[str, Any] = {"spark": any_spark}
    with Broker() as broker:
        fill(broker, "orders", "shipping")
        for topic in ("shipped", "drafts", "relayed"):
            broker.create_topic(topic, 2)
        for group in ("packing", "judging", "archive", "forwarding", "relaying"):
            broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})
        for block in blocks:
            is_refused = "publish_metrics" in block and "connect" in type(any_spark).__module__
            if not is_refused and not any(jar in block for jar in WITH_JARS):
                code = block.replace("localhost:9092", broker.bootstrap)
                code = code.replace("tempfile.mkdtemp()", repr(str(tmp_path)))
                run(code.replace("spark = SparkSession.builder.getOrCreate()\n", ""), names)
        for name in ("query", "watched"):
            if name in names:  # publish_metrics is refused by Spark Connect
                names[name].stop()
        assert [len(broker.records(topic)) for topic in ("shipped", "drafts", "relayed")] == [200, 3, 200]
        assert b"orders/0/0" in {record.headers[0][1] for record in broker.records("shipped")}
    assert any_spark.read.parquet(f"{tmp_path}/archive").count() == 200
    assert sorted(names["by_partition"]) == [(0, 100), (1, 100)]
    assert names["values"] == [b"%d" % number for number in range(100)] * 2


def run(code: str, names: dict[str, Any]) -> None:
    """Run one example, repeatedly if its runner didn't start: Spark only waits ten seconds for it."""
    for _ in range(5):
        known = {id(value) for value in names.values()}
        exec(code, names)
        # Spark Connect has a different class of this name.
        queries = [
            name
            for name in names.values()
            if type(name).__name__ == "StreamingQuery" and id(name) not in known
        ]
        if all(has_run(query, ends="availableNow" in code) for query in queries):
            return
    pytest.fail("the runner never started")


def has_run(query: StreamingQuery, *, ends: bool) -> bool:
    eventually(lambda: not query.isActive or (query.recentProgress and not ends), "a micro-batch, or the end")
    problem = query.exception()
    assert problem is None or "failed to connect back" in str(problem), str(problem)
    return problem is None
