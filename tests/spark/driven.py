"""A query that is driven as Spark drives it, without Spark: its two logs, a sink that is idempotent by batch id, and
the calls that a stream's runner gets, in their order. Takes milliseconds where a JVM takes seconds.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import anyio

from kshare import AdminClient
from kshare.spark.options import ReadOptions
from kshare.spark.source import ShareStreamReader
from kshare.testing import Broker

PATIENCE_S = 60.0
_numbers = itertools.count()

Where = tuple[int, int]
"""Partition and offset."""


class Crash(Exception):
    """The driver is gone."""


class DrivenQuery:
    """A topic, a group that reads it from the beginning, and a checkpoint."""

    def __init__(self, broker: Broker, *, partitions: int = 2) -> None:
        number = next(_numbers)
        self.broker = broker
        self.topic, self.group = f"driven-{number}", f"driven-{number}"
        broker.create_topic(self.topic, partitions)
        broker.set_group_config(self.group, {"share.auto.offset.reset": "earliest"})
        self.offset_log: list[str] = []
        self.commit_log: set[int] = set()
        self.sink: dict[int, list[Where]] = {}
        self.at: Callable[[str, int], None] = lambda step, batch: None
        """Called at every step (planned, logged, read, written, committed); may raise Crash."""

    def produce(self, count: int, partition: int = 0) -> None:
        self.broker.produce(self.topic, [f"{n}".encode() for n in range(count)], partition=partition)

    def reader(self, **options: str) -> ShareStreamReader:
        given = {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "group": self.group,
            "subscribe": self.topic,
        }
        return ShareStreamReader(ReadOptions.parse({**given, **options}, is_streaming=True))

    def run(self, *, until: Callable[[], bool] | None = None, **options: str) -> dict[str, Any]:
        """One life of the query: drained by AvailableNow, or until something holds. Gives the last progress."""
        reader = self.reader(**options)
        with ExitStack() as life:
            life.callback(reader.stop)
            try:
                if until is None:
                    reader.prepareForTriggerAvailableNow()
                if self.offset_log and len(self.offset_log) - 1 not in self.commit_log:
                    self._run_batch(reader)
                deadline = time.monotonic() + PATIENCE_S
                while self._trigger(reader) or (until is not None and not until()):
                    assert time.monotonic() < deadline, "never came to an end"
                return reader.reportLatestOffset() or {}
            except Crash:
                life.pop_all()
                crash(reader)
                raise

    def _trigger(self, reader: ShareStreamReader) -> bool:
        """One trigger; False when there was nothing to do."""
        start = json.loads(self.offset_log[-1]) if self.offset_log else reader.initialOffset()
        end = reader.latestOffset(start, None)
        if end == start:
            return False
        batch = len(self.offset_log)
        self.at("planned", batch)
        self.offset_log.append(json.dumps(end))
        self.at("logged", batch)
        if batch > 0:
            reader.commit(start)
        self._run_batch(reader)
        return True

    def _run_batch(self, reader: ShareStreamReader) -> None:
        batch = len(self.offset_log) - 1
        start = json.loads(self.offset_log[-2]) if batch else reader.initialOffset()
        rows: list[Where] = []
        for part in reader.partitions(start, json.loads(self.offset_log[-1])):
            for found in reader.read(part):
                columns = found.to_pydict()
                rows += zip(columns["partition"], columns["offset"], strict=True)
        self.at("read", batch)
        self.sink.setdefault(batch, rows)
        self.at("written", batch)
        self.commit_log.add(batch)
        self.at("committed", batch)

    @property
    def written(self) -> list[Where]:
        return [where for rows in self.sink.values() for where in rows]

    def expect(self, *counts: int) -> None:
        """Every record exactly once; so many in partition 0, 1, …"""
        wanted = [(number, at) for number, count in enumerate(counts) for at in range(count)]
        assert sorted(self.written) == wanted

    def lag(self) -> int:
        """What the group has still to get through, as the broker says."""

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


def crash(reader: ShareStreamReader) -> None:
    """As if its process were killed: connections end, and nobody says goodbye."""
    runner = reader._runner
    if runner is not None:
        life = runner._life.pop_all()
        runner._running.cancel()
        runner._portal.call(runner._portal.stop, True)
        del life
