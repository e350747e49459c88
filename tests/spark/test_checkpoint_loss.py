"""Lost, older and temporary checkpoints of queries in Spark.

Spark's file sink skips micro-batches whose numbers it knows, so with it, the first two are refused.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from kshare.testing import Broker
from tests.spark.queries import PATIENCE_S, Rig, started

REMEDIES = (
    "Start it from its checkpoint|Use the newest checkpoint",
    "a new checkpointLocation and a new output path",
)


class FileRig(Rig):
    """A query that writes JSON files."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        super().__init__(spark, broker, folder)
        self.output = folder / "output"

    def store(self, **options: str) -> None:
        """Run the query to its end, which stores records in several micro-batches."""
        frame = self.frame(maxRecordsPerTrigger="50", **options).select("partition", "offset")
        writer = frame.writeStream.format("json").option("path", str(self.output))
        query = self.start_by(writer.trigger(availableNow=True))
        assert query.awaitTermination(int(PATIENCE_S)), "the query didn't end in time"

    def produce_in_batches(self, count: int) -> None:
        for _ in range(count // 50):
            self.produce(50)

    @property
    def stored(self) -> list[int]:
        """The offsets in files that the sink's log names."""
        rows = self.spark.read.schema("partition int, offset long").json(str(self.output)).collect()
        return sorted(row.offset for row in rows)

    def expect_refusal(self) -> None:
        with pytest.raises(StreamingQueryException) as refused:
            self.store()
        for words in ("LostCheckpoint", *REMEDIES):
            refused.match(words)


@pytest.fixture
def rig(spark: SparkSession, orders_broker: Broker, tmp_path: Path) -> FileRig:
    return FileRig(spark, orders_broker, tmp_path)


def test_a_lost_checkpoint(rig: FileRig, tmp_path: Path) -> None:
    rig.produce_in_batches(200)
    rig.store()
    assert rig.stored == [*range(200)]
    shutil.rmtree(rig.checkpoint)
    rig.produce_in_batches(200)
    rig.expect_refusal()
    rig.expect_refusal()
    assert rig.lag() == 200
    rig.checkpoint, rig.output = tmp_path / "new-checkpoint", tmp_path / "new-output"
    rig.store(failOnLostCheckpoint="false")
    assert rig.stored == [*range(200, 400)]


def test_an_older_copy_of_the_checkpoint(rig: FileRig, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    rig.produce_in_batches(100)
    rig.store()
    shutil.copytree(rig.checkpoint, copy)
    rig.produce_in_batches(100)
    rig.store()
    shutil.move(rig.checkpoint, tmp_path / "newest")
    shutil.copytree(copy, rig.checkpoint)
    rig.produce_in_batches(200)
    rig.expect_refusal()
    rig.expect_refusal()
    assert rig.lag() == 200
    shutil.rmtree(rig.checkpoint)
    shutil.move(tmp_path / "newest", rig.checkpoint)
    rig.store()
    assert rig.stored == [*range(400)]


def test_queries_without_a_checkpoint_location(rig: FileRig) -> None:
    """Spark makes a temporary checkpoint for each start. Such a query isn't one whose checkpoint was lost."""
    written: list[int] = []
    for count in (100, 200):
        rig.produce(100)
        writer = rig.frame().writeStream.foreachBatch(
            lambda frame, _: written.extend(row.offset for row in frame.select("offset").collect())
        )
        query = started(writer.trigger(availableNow=True))
        assert query.awaitTermination(int(PATIENCE_S)), "the query didn't end in time"
        assert sorted(written) == [*range(count)]
    rig.produce(100)
    rig.store()
    assert rig.stored == [*range(200, 300)]
