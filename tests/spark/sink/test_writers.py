"""Writing from Spark: DataFrames and streams, into the embedded broker and into Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import anyio
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import kshare.sync
from kshare.testing import Broker
from tests.helpers.committed import records_in
from tests.spark.queries import PATIENCE_S, started
from tests.spark.shared_topic import SharedTopic
from tools.kafka.cluster import Cluster
from tools.kafka.jars import install

REAL = "4.3.1"
COUNT = 300
_KAFKA = [pytest.mark.kafka, pytest.mark.java]
pairs = pytest.mark.parametrize(
    ("brokers", "any_spark"),
    [
        ("embedded", "classic"),
        pytest.param(REAL, "connect", marks=_KAFKA),
        pytest.param("embedded", "connect", marks=pytest.mark.long),
        pytest.param(REAL, "classic", marks=[*_KAFKA, pytest.mark.long]),
    ],
    indirect=True,
)
"""Both brokers and both kinds of sessions; all combinations take minutes."""


@pytest.fixture(
    scope="module",
    params=["embedded", pytest.param(REAL, marks=_KAFKA)],
)
def brokers(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The embedded broker, or Kafka, whose methods that are used here have the same names."""
    if request.param == "embedded":
        yield request.getfixturevalue("orders_broker")
        return
    install(REAL)
    with Cluster(REAL) as cluster:
        yield cast(Broker, cluster)


class Sink(SharedTopic):
    """A topic to write to, and a shared one to read from."""

    def __init__(self, brokers: Broker) -> None:
        super().__init__(brokers)
        self.shipped = f"{self.topic}-shipped"
        brokers.create_topic(self.shipped, 3)

    def sink_options(self, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.broker.bootstrap, "topic": self.shipped, **more}

    def save(self, frame: DataFrame, mode: str = "append", **more: str) -> None:
        frame.write.format("kshare").options(**self.sink_options(**more)).mode(mode).save()

    def fill(self, count: int) -> None:
        with kshare.sync.Producer(self.broker.bootstrap) as producer:
            for number in range(count):
                producer.enqueue(self.topic, b"order %d" % number, partition=number % 2)

    def stream(self, spark: SparkSession, folder: Path, **more: str) -> DataStreamWriter:
        frame = spark.readStream.format("kshare").options(**self.options()).load()
        writer = frame.selectExpr("key", "value").writeStream.format("kshare")
        return writer.options(**self.sink_options(**more)).option("checkpointLocation", str(folder))

    def drain(self, writer: DataStreamWriter) -> None:
        query = started(writer.trigger(availableNow=True))
        assert query.awaitTermination(int(PATIENCE_S)), "the query didn't end in time"

    def values(self) -> Counter[str]:
        """How often each value is in the topic, for consumers with `read_committed`."""
        found = anyio.run(records_in, self.broker.bootstrap, self.shipped)
        return Counter(bytes(record.value or b"").decode() for record in found)


@pytest.fixture
def sink(brokers: Broker) -> Sink:
    return Sink(brokers)


def forget_last_commit(folder: Path) -> None:
    """As if the driver had crashed after the sink had written, but before Spark committed the micro-batch."""
    last = max((folder / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


@pairs
def test_a_dataframe_is_written(any_spark: SparkSession, sink: Sink) -> None:
    frame = any_spark.range(0, COUNT, 1, numPartitions=1).selectExpr(  # one task, so that the order is known
        "CAST(id AS STRING) AS key",
        "CAST(concat('order ', id) AS BINARY) AS value",
        "CASE WHEN id = 1 THEN array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) END AS headers",
        "CAST(id % 3 AS INT) AS partition",
        "timestamp_millis(unix_millis(current_timestamp()) DIV 1000 * 1000 + id) AS timestamp",
    )
    sink.save(frame, **{"kafka.compression.type": "zstd"})
    found = anyio.run(records_in, sink.broker.bootstrap, sink.shipped)
    assert [record.key for record in found] == [
        b"%d" % number for part in range(3) for number in range(part, COUNT, 3)
    ]
    assert all(record.value == b"order " + (record.key or b"") for record in found)
    assert [list(record.headers) for record in found if record.headers] == [[("h", b"x")]]
    assert all(record.timestamp % 1000 == int(record.key or b"") for record in found)


@pairs
def test_topics_of_rows(any_spark: SparkSession, sink: Sink) -> None:
    columns = (
        f"if(id < 2, '{sink.topic}', '{sink.shipped}') AS topic",
        "CAST(id AS STRING) AS value",
    )
    frame = any_spark.range(5).selectExpr(*columns)
    writer = frame.write.format("kshare").option("kafka.bootstrap.servers", sink.broker.bootstrap)
    writer.mode("append").save()
    assert sorted(sink.values()) == ["2", "3", "4"]


@pytest.mark.parametrize(
    ("columns", "mode", "more", "message"),
    [
        (["id AS value"], "append", {}, "column value must be string or binary, not bigint: cast it"),
        (["CAST(id AS STRING) AS value"], "overwrite", {}, r'write mode\("append"\)'),
        (["CAST(id AS STRING) AS value"], "append", {"topc": "x"}, r"did you mean topic\?"),
        (
            ["CAST(id AS STRING) AS value", "7 AS partition"],
            "append",
            {},
            r"rows 0 to \d of task \d that go to this partition aren't confirmed: .*\[7\]: topic .* has no partition 7",
        ),
    ],
)
def test_errors_say_what_to_do(
    spark: SparkSession, sink: Sink, columns: list[str], mode: str, more: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message) as caught:
        sink.save(spark.range(4).selectExpr(*columns), mode, **more)
    assert "Py4J" not in str(caught.value)


@pairs
@pytest.mark.parametrize("is_exact", [False, True], ids=["at-least-once", "exactly-once"])
def test_a_micro_batch_that_is_repeated(
    any_spark: SparkSession, sink: Sink, tmp_path: Path, is_exact: bool
) -> None:
    more = {"exactlyOnceTopic": f"{sink.topic}-markers"} if is_exact else {}
    sink.fill(COUNT)
    sink.drain(sink.stream(any_spark, tmp_path, **more))
    expected = Counter(f"order {number}" for number in range(COUNT))
    assert sink.values() == expected
    forget_last_commit(tmp_path)
    sink.drain(sink.stream(any_spark, tmp_path, **more))
    again = sink.values()
    assert set(again) == set(expected)
    assert (again == expected) is is_exact
    sink.fill(10)
    sink.drain(sink.stream(any_spark, tmp_path, **more))
    assert set(sink.values()) == set(expected)
    assert sum(sink.values().values()) == sum(again.values()) + 10


def test_an_aggregation_in_complete_mode(spark: SparkSession, sink: Sink, tmp_path: Path) -> None:
    """All output modes add records; in complete mode, each micro-batch writes the whole result."""
    sink.fill(20)
    frame = spark.readStream.format("kshare").options(**sink.options()).load()
    counts = frame.groupBy("partition").count().selectExpr("CAST(count AS STRING) AS value")
    writer = counts.writeStream.format("kshare").options(**sink.sink_options()).outputMode("complete")
    sink.drain(writer.option("checkpointLocation", str(tmp_path)))
    assert sink.values() == {"10": 2}
