"""Streams in Spark with the embedded broker: what is emitted, when it is accepted, and what happens after failures."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kshare.errors import ConfigError, KshareError
from kshare.spark import settle
from kshare.testing import Broker
from tests.spark.files import FileSink
from tests.spark.processes import runners
from tests.spark.queries import Rig, eventually, progress


@pytest.fixture
def rig(spark: SparkSession, orders_broker: Broker, tmp_path: Path) -> Rig:
    return Rig(spark, orders_broker, tmp_path)


def test_records_are_emitted_once_and_accepted_when_their_batch_is_complete(rig: Rig) -> None:
    rig.produce(300)
    query = rig.start()
    eventually(lambda: len(rig.written) == 300, "the first records")
    eventually(lambda: rig.lag() == 0, "accepted without a further batch")
    rig.produce(200, 1)
    eventually(lambda: len(rig.written) == 500, "what came later")
    eventually(lambda: progress(query).get("emitted") == 500, "progress")
    assert progress(query)["skippedDuplicates"] == 0
    query.stop()
    rig.expect(300, 200)
    eventually(lambda: rig.members() == 0, "the group is left")


def test_available_now_reads_existing_records_and_ends(rig: Rig) -> None:
    rig.produce(250)
    rig.produce(250, 1)

    def more_comes(*_: object) -> None:
        rig.produce(10)
        rig.on_batch = lambda *_: None

    rig.on_batch = more_comes
    rig.drain(maxRecordsPerTrigger="100")
    rig.expect(250, 250)
    assert len(rig.sink) >= 4
    assert rig.lag() == 10


def test_once_is_one_micro_batch_that_the_next_start_acknowledges(rig: Rig) -> None:
    rig.produce(100)

    def once() -> None:
        assert rig.start(trigger={"once": True}, settings={"maxWaitMs": "10000"}).awaitTermination(150), (
            "the query didn't end in time"
        )

    once()
    rig.expect(100)
    assert rig.lag() == 100
    rig.produce(50, 1)
    once()
    rig.expect(100, 50)
    assert rig.lag() == 50, "the previous batch isn't acknowledged"
    rig.drain()
    rig.expect(100, 50)
    assert rig.lag() == 0


def test_two_queries_share_a_group(spark: SparkSession, orders_broker: Broker, tmp_path: Path) -> None:
    """Each record is emitted by exactly one of them."""
    one = Rig(spark, orders_broker, tmp_path / "one")
    other = Rig(spark, orders_broker, tmp_path / "other")
    other.topic, other.group = one.topic, one.group
    queries = [rig.start(settings={"maxRecordsPerTrigger": "40"}) for rig in (one, other)]
    eventually(lambda: one.members() == 2, "both are members")
    produced = 0
    while not (one.written and other.written) or produced < 40:
        assert produced < 2000, "one of the queries receives no records"
        one.produce(10, produced % 2)
        produced += 1
        late = 10 * produced - 100
        eventually(lambda late=late: len(one.written) + len(other.written) > late, "they keep up")  # type: ignore[misc]
    eventually(lambda: one.lag() == 0, "all is acknowledged")
    for query in queries:
        query.stop()
    counts = [10 * len(range(number, produced, 2)) for number in range(2)]
    wanted = [(number, at) for number, count in enumerate(counts) for at in range(count)]
    assert sorted(one.written + other.written) == wanted


def test_a_killed_runner_loses_and_duplicates_nothing(rig: Rig) -> None:
    rig.produce(100)
    rig.produce(100, 1)

    def kill(*_: object) -> None:
        rig.on_batch = lambda *_: None
        mine = runners()
        assert mine, "there is no runner"
        for runner in mine:
            os.kill(runner, signal.SIGKILL)

    rig.on_batch = kill
    query = rig.start()
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(60)
    rig.drain()
    rig.expect(100, 100)
    assert rig.lag() == 0


def judge(frame: DataFrame, batch: int) -> None:
    if batch:
        return
    row = frame.where("offset = 7").collect()[0]
    assert (row.deliveryCount, row.headers) == (1, None)
    assert settle(frame.where("offset % 10 = 3"), "reject") == 2
    assert settle(frame.where("offset = 5"), "release") == 1
    with pytest.raises(ConfigError, match="keep the column offset"):
        settle(frame.select("topic", "partition"), "reject")
    with pytest.raises(KshareError, match="rows can't be settled"):
        settle(frame.selectExpr("topic", "partition", "offset + 100 AS offset").limit(1), "reject")


def test_single_rows_are_rejected_and_released(
    any_spark: SparkSession, orders_broker: Broker, tmp_path: Path
) -> None:
    """With Spark Connect, the function runs in a process of the server."""
    rig = Rig(any_spark, orders_broker, tmp_path)
    rig.produce(20)
    sink = FileSink(tmp_path / "sink", judge)
    rig.drain(sink, settleRows="true", includeHeaders="true", deliveryCount="true")
    assert sorted(sink.written) == sorted([(0, at) for at in range(20)] + [(0, 5)])
    assert rig.lag() == 0


def test_asynchronous_progress_tracking_is_refused(rig: Rig) -> None:
    rig.produce(300)
    writer = rig.frame(maxRecordsPerTrigger="100").writeStream.format("noop")
    query = rig.start_by(writer.option("asyncProgressTrackingEnabled", "true"))
    with pytest.raises(StreamingQueryException, match="asyncProgressTrackingEnabled out"):
        query.awaitTermination(60)


def test_error_messages_are_short(any_spark: SparkSession, orders_broker: Broker, tmp_path: Path) -> None:
    rig = Rig(any_spark, orders_broker, tmp_path)
    with pytest.raises(Exception, match=r"did you mean group\?"):
        _ = rig.frame(gruop="x").schema
    frame = rig.frame(**{"kafka.bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(StreamingQueryException, match=r"can't reach 127\.0\.0\.1:1") as caught:
        rig.start_by(frame.writeStream.format("noop")).awaitTermination(60)
    # Spark Connect appends the server's stack trace.
    assert str(caught.value).partition("JVM stacktrace")[0].count("\n") < 40
