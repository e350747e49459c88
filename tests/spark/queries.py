"""A streaming query for tests. Its sink is idempotent by batch id, and can be made to fail or wait."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kshare.testing import Broker
from tests.spark.shared_topic import SharedTopic

PATIENCE_S = 150.0
_NO_PYTHON = "failed to connect back"


class Rig(SharedTopic):
    """A query of one topic in Spark, and its checkpoint."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        super().__init__(broker)
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.on_batch: Callable[[DataFrame, int], None] = lambda _, __: None
        """Called after a batch is written."""

    def frame(self, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("kshare")
        for name, value in {**self.options(), **options}.items():
            reader = reader.option(name, value)
        return reader.load()

    def start(
        self,
        *,
        trigger: dict[str, Any] | None = None,
        settings: dict[str, str] | None = None,
        sink: Callable[[DataFrame, int], None] | None = None,
    ) -> StreamingQuery:
        writer = self.frame(**(settings or {})).writeStream.foreachBatch(sink or self._write)
        return self.start_by(writer.trigger(**(trigger or {"processingTime": "0 seconds"})))

    def start_by(self, writer: DataStreamWriter) -> StreamingQuery:
        return started(writer.option("checkpointLocation", str(self.checkpoint)))

    def drain(self, sink: Callable[[DataFrame, int], None] | None = None, **options: str) -> None:
        """Run a query with AvailableNow to its end."""
        query = self.start(trigger={"availableNow": True}, settings=options, sink=sink)
        assert query.awaitTermination(int(PATIENCE_S)), "the query didn't end in time"

    def _write(self, frame: DataFrame, batch: int) -> None:
        rows = [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]
        self.sink.setdefault(batch, rows)
        self.on_batch(frame, batch)


def started(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query, repeatedly if Spark's runner didn't start: Python has ten seconds, too few on a busy machine."""
    while True:
        try:
            query = writer.start()
        except PySparkException as failure:  # Spark Connect starts the process that runs foreachBatch here
            if _NO_PYTHON not in str(failure):
                raise
            continue
        eventually(lambda query=query: has_come_up(query), "the runner has come up")  # type: ignore[misc]
        problem = query.exception()
        if problem is None or _NO_PYTHON not in str(problem):
            return query


def eventually(condition: Callable[[], object], what: str, *, patience: float = PATIENCE_S) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"didn't happen in time: {what}"
        time.sleep(0.05)


def has_come_up(query: StreamingQuery) -> bool:
    return not (query.isActive and query.status["message"].startswith("Initializing"))


def progress(query: StreamingQuery) -> dict[str, Any]:
    """What the source reports in Spark's last progress."""
    last = query.lastProgress
    found: dict[str, Any] = {}
    if last is not None:
        found = json.loads(last.json)["sources"][0]["latestOffset"] or {}
    return found
