"""Tasks of the Spark sink against real brokers, without Spark: whole, repeated, and overtaken by another attempt."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pyarrow as pa
import pytest

from kshare.errors import KshareError
from kshare.spark.executor.connections import close_connections
from kshare.spark.sink.batch_marker import MarkerKey
from kshare.spark.sink.kept_writers import kept_writer
from kshare.spark.sink.once_writer import OnceWriter
from kshare.spark.sink.row_writer import RowWriter
from kshare.spark.sink.write_options import WriteOptions
from tests.helpers.committed import committed
from tests.integration.conftest import FreshTopic
from tests.spark.sink.tasks import connected, numbered
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.java]


class Sink:
    """A topic to write to."""

    def __init__(self, kafka: Cluster, topic: str) -> None:
        self._bootstrap, self.topic = kafka.bootstrap, topic

    def options(self, **more: str) -> WriteOptions:
        given = {
            "kafka.bootstrap.servers": self._bootstrap,
            "topic": self.topic,
            "kafka.compression.type": "lz4",
        }
        return WriteOptions.parse({**given, **more}, is_streaming=True)

    def task(self, batch_id: int, number: int = 0) -> OnceWriter:
        given = self.options(exactlyOnceTopic=f"{self.topic}-batches")
        return OnceWriter(connected(given), given, MarkerKey(self.topic, number), batch_id, f"task {number}")

    def found(self) -> list[int]:
        return sorted(int(value or b"") for value in anyio.run(committed, self._bootstrap, self.topic))


@pytest.fixture
def sink(kafka: Cluster, fresh_topic: FreshTopic) -> Iterator[Sink]:
    yield Sink(kafka, fresh_topic(3))
    close_connections()


def test_rows_are_written(sink: Sink) -> None:
    given = sink.options()
    with kept_writer(connected(given), given.writing) as writer:
        rows = RowWriter(connected(given), writer, given.writing, given.topic, "task 0")
        rows.write([numbered(0, 30_000), numbered(30_000, 40_000)])
    assert sink.found() == [*range(40_000)]


def test_a_repeated_task_writes_nothing(sink: Sink) -> None:
    for number in range(2):
        rows = [numbered(number * 500, number * 500 + 500)]
        assert sink.task(0, number).write(rows) == 500
        assert sink.task(0, number).write(rows) == 0
    assert sink.task(1).write([numbered(1000, 1100)]) == 100
    assert sink.found() == [*range(1100)]


def test_the_second_of_two_attempts_fences_the_first(sink: Sink) -> None:
    def overtaken() -> Iterator[pa.RecordBatch]:
        yield numbered(0, 30_000)  # more than a batch, so that it is being sent
        assert sink.task(0).write([numbered(0, 40_000)]) == 40_000
        yield numbered(30_000, 40_000)

    with pytest.raises(KshareError, match="a newer producer has this id"):
        sink.task(0).write(overtaken())
    assert sink.found() == [*range(40_000)]
    with pytest.raises(KshareError, match="has already written 40000"):
        sink.task(0).write([numbered(0, 10)])
