"""A streaming query for tests: its sink is idempotent by batch id, and may be told to fail or to wait."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kshare import AdminClient
from kshare.testing import Broker

PATIENCE_S = 150.0
_numbers = itertools.count()

Where = tuple[int, int]
"""Partition and offset."""


class Rig:
    """A topic, a group that reads it from the beginning, and a checkpoint of their own."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path, *, partitions: int = 2) -> None:
        number = next(_numbers)
        self.spark, self.broker = spark, broker
        self.topic, self.group = f"orders-{number}", f"shipping-{number}"
        self.checkpoint = folder / "checkpoint"
        self.batches: dict[int, list[Where]] = {}
        """By batch id: what the first run that got so far has written."""
        self.seen: list[Where] = []
        """Whatever any run was given, replays included."""
        self.on_batch: Callable[[DataFrame, int], None] = lambda _, __: None
        """Called after a batch is written."""
        self.before_batch: Callable[[DataFrame, int], None] = lambda _, __: None
        broker.create_topic(self.topic, partitions)
        broker.set_group_config(self.group, {"share.auto.offset.reset": "earliest"})

    def produce(self, count: int, partition: int = 0) -> None:
        self.broker.produce(self.topic, [f"{n}".encode() for n in range(count)], partition=partition)

    def frame(self, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("kshare")
        for name, value in {**self.options(), **options}.items():
            reader = reader.option(name, value)
        return reader.load()

    def options(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "group": self.group,
            "subscribe": self.topic,
        }

    def start(
        self,
        *,
        trigger: dict[str, Any] | None = None,
        settings: dict[str, str] | None = None,
        **options: str,
    ) -> StreamingQuery:
        writer = self.frame(**options, **(settings or {})).writeStream.foreachBatch(self._write)
        return self.start_by(writer.trigger(**(trigger or {"processingTime": "0 seconds"})))

    def start_by(self, writer: DataStreamWriter) -> StreamingQuery:
        """Once more where Spark's runner didn't come up: it gives Python ten seconds, too few on a busy machine."""
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        while True:
            query = writer.start()
            eventually(lambda query=query: has_come_up(query), "the runner has come up")  # type: ignore[misc]
            problem = query.exception()
            if problem is None or "failed to connect back" not in str(problem):
                return query

    def drain(self, **options: str) -> None:
        """AvailableNow, to its end."""
        query = self.start(trigger={"availableNow": True}, settings=options)
        assert query.awaitTermination(int(PATIENCE_S)), "never ended"

    def _write(self, frame: DataFrame, batch: int) -> None:
        self.before_batch(frame, batch)
        rows = [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]
        self.seen += rows
        self.batches.setdefault(batch, rows)
        self.on_batch(frame, batch)

    @property
    def written(self) -> list[Where]:
        return [where for rows in self.batches.values() for where in rows]

    def expect(self, *counts: int) -> None:
        """Every record exactly once; so many in partition 0, 1, …"""
        wanted = [(number, at) for number, count in enumerate(counts) for at in range(count)]
        assert sorted(self.written) == wanted

    def lag(self) -> int:
        """What the group has still to get through, going by the broker."""

        async def ask() -> int:
            async with AdminClient(self.broker.bootstrap) as admin:
                rows = await admin.share_group_offsets(self.group, {self.topic: None})
                return sum(row.lag or 0 for row in rows)

        return anyio.run(ask)

    def members(self) -> int:
        async def ask() -> int:
            async with AdminClient(self.broker.bootstrap) as admin:
                return len((await admin.describe_share_group(self.group)).members)

        return anyio.run(ask)


def eventually(condition: Callable[[], object], what: str) -> None:
    """Polls until it holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


def has_come_up(query: StreamingQuery) -> bool:
    return not query.isActive or query.status["message"] != "Initializing sources"


def progress(query: StreamingQuery) -> dict[str, Any]:
    """What the source tells of itself, of the newest trigger that Spark reports."""

    last = query.lastProgress
    found: dict[str, Any] = {}
    if last is not None:
        found = json.loads(last.json)["sources"][0]["latestOffset"] or {}
    return found
