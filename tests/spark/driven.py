"""A query that is driven as Spark drives it, but without Spark.

It has Spark's two logs and a sink that is idempotent by batch id, and makes the same calls to the source in the same
order. It takes milliseconds where a JVM takes seconds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from pyspark.sql.datasource import InputPartition

from kshare.spark.options import ReadOptions
from kshare.spark.source import ShareStreamReader
from kshare.testing import Broker
from tests.spark.shared_topic import SharedTopic, Where

PATIENCE_S = 60.0
_MOMENT_S = 0.3
"""About the time between two calls of Spark. A source that has been started fetches something meanwhile."""


class Crash(Exception):
    """The driver crashes."""


class Stop(Exception):
    """The user stops the query."""


class DrivenQuery(SharedTopic):
    """A query of one topic, and its checkpoint."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.offset_log: list[str] = []
        self.commit_log: set[int] = set()
        self._reader: ShareStreamReader | None = None
        self.at: Callable[[str, int], None] = lambda step, batch: None
        """Called at every step (planned, logged, read, written, committed). May raise Crash or Stop."""

    def reader(self, **options: str) -> ShareStreamReader:
        return ShareStreamReader(ReadOptions.parse({**self.options(), **options}, is_streaming=True))

    def run(self, *, until: Callable[[], bool] | None = None, **options: str) -> dict[str, Any]:
        """Run the query once: with AvailableNow, or until a condition holds. Returns the last progress."""
        reader = self._reader = self.reader(**options)
        with ExitStack() as life:
            life.callback(reader.stop)
            try:
                if until is None:
                    reader.prepareForTriggerAvailableNow()
                self._resume(reader)
                if self.offset_log and len(self.offset_log) - 1 not in self.commit_log:
                    self._run_batch(reader)
                deadline = time.monotonic() + PATIENCE_S
                while self._trigger(reader) or (until is not None and not until()):
                    assert time.monotonic() < deadline, "the query didn't end in time"
                return reader.reportLatestOffset() or {}
            except Stop:
                return {}
            except Crash:
                life.pop_all()
                crash(reader)
                raise

    def _resume(self, reader: ShareStreamReader) -> None:
        """Tell a new runner the last offset of the checkpoint. From PySpark 4.2 on, Spark doesn't do that."""

    def _offsets(self, reader: ShareStreamReader) -> tuple[dict[str, Any], dict[str, Any]]:
        """The query's current offset, and the latest one."""
        start = json.loads(self.offset_log[-1]) if self.offset_log else reader.initialOffset()
        return start, reader.latestOffset(start, None)

    def _trigger(self, reader: ShareStreamReader) -> bool:
        """Run one trigger. Returns False if there was nothing to do."""
        start, end = self._offsets(reader)
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

    def progress(self) -> dict[str, Any]:
        """What the source reports while the query runs."""
        assert self._reader is not None
        return self._reader.reportLatestOffset() or {}

    def read_again(self) -> None:
        """Ask for the partitions of the current batch a second time, as Spark may."""
        assert self._reader is not None
        self._partitions(self._reader)

    def _partitions(self, reader: ShareStreamReader) -> Sequence[InputPartition]:
        start = json.loads(self.offset_log[-2]) if len(self.offset_log) > 1 else reader.initialOffset()
        return reader.partitions(start, json.loads(self.offset_log[-1]))

    def _run_batch(self, reader: ShareStreamReader) -> None:
        batch = len(self.offset_log) - 1
        rows: list[Where] = []
        for part in self._partitions(reader):
            for found in reader.read(part):
                columns = found.to_pydict()
                rows += zip(columns["partition"], columns["offset"], strict=True)
        self.at("read", batch)
        self.sink.setdefault(batch, rows)
        self.at("written", batch)
        self.commit_log.add(batch)
        self.at("committed", batch)


class OlderDrivenQuery(DrivenQuery):
    """As in PySpark 4.0 and 4.1, `latestOffset` has no arguments, and a restart begins with `partitions(x, x)`."""

    is_told_the_last_offset = True

    def _resume(self, reader: ShareStreamReader) -> None:
        if self.offset_log and self.is_told_the_last_offset:
            last = json.loads(self.offset_log[-1])
            assert reader.partitions(last, last) == []
            time.sleep(_MOMENT_S)

    def _offsets(self, reader: ShareStreamReader) -> tuple[dict[str, Any], dict[str, Any]]:
        end = reader.latestOffset()
        return json.loads(self.offset_log[-1]) if self.offset_log else reader.initialOffset(), end


def crash(reader: ShareStreamReader) -> None:
    """As if its process were killed: connections break, without leaving the group or closing sessions."""
    runner = reader._runner
    if runner is not None:
        life = runner._exit_stack.pop_all()
        runner._running.cancel()
        runner._portal.call(runner._portal.stop, True)
        del life
