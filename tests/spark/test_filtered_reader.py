"""Filters pushed down by a real Spark: the same rows with the setting off and on, and fewer records read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThanOrEqual

import kshare.spark
from kshare.spark.backlog import BacklogReader
from kshare.spark.executor.connections import close_connections
from kshare.spark.filtered_reader import FilteredReader
from kshare.spark.options import ReadOptions
from kshare.sync import Producer
from kshare.testing import Broker
from tests.spark.queries import Rig

SETTING = "spark.sql.python.filterPushdown.enabled"
BEGIN_MS = int(time.time() * 1000) - 200_000


@pytest.fixture(params=["false", "true"])
def pushing_spark(any_spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    any_spark.conf.set(SETTING, request.param)
    yield any_spark
    any_spark.conf.unset(SETTING)


@pytest.fixture
def rig(pushing_spark: SparkSession, orders_broker: Broker, tmp_path: Path) -> Rig:
    """Two partitions of 100 records. Partition 1 has timestamps that ascend, except that one is late."""
    rig = Rig(pushing_spark, orders_broker, tmp_path)
    rig.produce(100)
    with Producer(orders_broker.bootstrap) as producer:
        for number in range(100):
            stamp = BEGIN_MS + 1000 * number - (50_000 if number == 70 else 0)
            producer.send(rig.topic, b"%d" % number, partition=1, timestamp=stamp)
    return rig


def view(rig: Rig) -> DataFrame:
    return rig.spark.read.format("kshare").options(**rig.options()).options(minRecordsPerPartition=10).load()


def offsets(frame: DataFrame) -> list[tuple[int, int]]:
    rows = frame.select("partition", "offset").collect()
    return sorted((row.asDict()["partition"], row.asDict()["offset"]) for row in rows)


def tasks(frame: DataFrame) -> int:
    return frame.selectExpr("spark_partition_id() AS task").distinct().count()


def test_views_have_the_same_rows_whatever_the_setting(rig: Rig) -> None:
    frame = view(rig)
    assert len(offsets(frame)) == 200
    assert tasks(frame.where("partition = 1 AND offset > 90")) == 1
    assert offsets(frame.where("partition = 1 AND offset BETWEEN 5 AND 8 AND offset <> 6")) == [
        (1, 5),
        (1, 7),
        (1, 8),
    ]
    assert offsets(frame.where("partition = 1 AND (offset < 2 OR key IS NOT NULL)")) == [(1, 0), (1, 1)]
    assert offsets(frame.where(f"topic = '{rig.topic}' AND offset IN (3, 99)")) == [
        (0, 3),
        (0, 99),
        (1, 3),
        (1, 99),
    ]
    assert offsets(frame.where("topic LIKE 'none%'")) == []
    # The record at 70 is as old as that at 20, and lies behind the first that is new enough.
    new = f"partition = 1 AND timestamp >= timestamp_millis({BEGIN_MS + 60_000})"
    assert offsets(frame.where(new)) == [(1, at) for at in range(60, 100) if at != 70]
    old = f"partition = 1 AND timestamp <= timestamp_millis({BEGIN_MS + 20_000})"
    assert offsets(frame.where(old)) == [(1, at) for at in [*range(21), 70]]


def test_leases_have_the_same_rows_whatever_the_setting(rig: Rig) -> None:
    with kshare.spark.lease(rig.spark, rig.options(), max_records=200, max_wait=60) as lease:
        frame = lease.dataframe()
        leased = offsets(frame)
        assert leased
        assert offsets(frame.where("offset >= 98")) == [place for place in leased if place[1] >= 98]
        new = f"timestamp = timestamp_millis({BEGIN_MS + 60_000})"
        assert offsets(frame.where(new)) == [place for place in leased if place == (1, 60)]


def test_the_setting_saves_tasks(spark: SparkSession, orders_broker: Broker, tmp_path: Path) -> None:
    rig = Rig(spark, orders_broker, tmp_path)
    rig.produce(10)
    rig.produce(10, 1)
    for setting, tasks in (("false", 2), ("true", 1)):
        spark.conf.set(SETTING, setting)
        assert view(rig).where("partition = 1").rdd.getNumPartitions() == tasks
    spark.conf.unset(SETTING)


def test_filters_narrow_what_is_planned(orders_broker: Broker) -> None:
    rig = Rig(None, orders_broker, Path())  # type: ignore[arg-type]  # no Spark here
    rig.produce(50)
    rig.produce(50, 1)
    options = ReadOptions.parse(rig.options(), is_streaming=False)
    reader = FilteredReader(BacklogReader(options))
    key = EqualTo(("key",), b"1")
    assert list(
        reader.pushFilters([EqualTo(("partition",), 1), key, GreaterThanOrEqual(("offset",), 48)])
    ) == [key]
    planned = [one for task in reader.partitions() for one in task.ranges]  # type: ignore[attr-defined]
    assert [(one.partition, one.first, one.last) for one in planned] == [(1, 48, 49)]
    assert sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task)) == 2
    close_connections()


def test_spark_refuses_filters_of_readers_only_by_their_class() -> None:
    """So that a plain reader must not have the method."""
    assert BacklogReader.pushFilters is DataSourceReader.pushFilters
    assert FilteredReader.pushFilters is not DataSourceReader.pushFilters
