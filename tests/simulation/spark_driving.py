"""Makes the calls that Spark makes to the source, in Spark's order, with its two logs and an idempotent sink.

`tests/spark/driven.py` does the same with real brokers and threads. Here, the process may be killed at each step, and
while each call is under way. Tasks run in an executor, which may be killed as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Protocol

import anyio
from pyspark.sql.datasource import InputPartition

from kshare.spark.options import ReadOptions
from kshare.spark.source import ShareStreamReader
from kshare.surroundings import monotonic
from tests.simulation.blocking import run_blocking
from tests.simulation.spark_history import Attempt, Batch, History, Place
from tests.simulation.spark_processes import Driver, Executor, Row, TaskFailed

STEPS = (
    "asking",
    "planned",
    "logged",
    "committed before",
    "planned tasks",
    "read",
    "decided",
    "written",
    "committed",
)
"""Between the calls of Spark. "committed before": the source was told of the batch before."""
_TRIES = 4
"""How often Spark tries a task."""


def _told(places: Iterable[Place]) -> str:
    """Such as 0:5-9 for offsets 5 to 9 of partition 0."""
    found = {*places}
    firsts = sorted(place for place in found if (place[0], place[1] - 1) not in found)
    lasts = sorted(place for place in found if (place[0], place[1] + 1) not in found)
    return ", ".join(f"{first[0]}:{first[1]}-{last[1]}" for first, last in zip(firsts, lasts, strict=True))


class AnotherDriver(Exception):
    """Another driver has written the same micro-batch into one of Spark's logs."""


class QueryFailed(Exception):
    """A task failed in all its attempts, or the sink did."""


class User(Protocol):
    """What surrounds the query."""

    def is_over(self) -> bool:
        """Whether to stop the query."""
        ...

    def at(self, step: str) -> None:
        """The query is at this step. May kill the process."""
        ...

    def new_executor(self) -> Executor: ...

    def is_sink_failing(self) -> bool: ...

    def verdict_on(self, place: Place) -> str | None:
        """Whether the user rejects or releases this row."""
        ...


@dataclass
class Driving:
    """One start of the query, from its checkpoint."""

    process: Driver
    options: Mapping[str, str]
    history: History
    user: User
    chance: Random
    pauses: Sequence[float]
    """How long the steps take."""
    is_older: bool = False
    """As in PySpark 4.0 and 4.1: `latestOffset` has no arguments, and a restart begins with `partitions(x, x)`."""
    drains: bool = False
    """With the trigger AvailableNow."""
    idle_s: float = 0.1
    """How long Spark waits until it asks again whether there is anything new."""
    _tokens: list[str] = field(default_factory=list)
    """The offset log, as this driver knows it: it reads it once."""

    async def run(self) -> None:
        reader = ShareStreamReader(ReadOptions.parse(self.options, is_streaming=True))
        try:
            await self._run(reader)
        except Exception:
            await self._stop(reader)
            raise
        await self._stop(reader)

    async def _stop(self, reader: ShareStreamReader) -> None:
        await run_blocking(reader.stop)
        executor, self.process.executor = self.process.executor, None
        if executor is not None:
            await executor.stop()

    async def _run(self, reader: ShareStreamReader) -> None:
        batches = self.history.batches
        tokens = self._tokens = [batch.token for batch in batches]
        if self.drains:
            await run_blocking(reader.prepareForTriggerAvailableNow)
        if self.is_older and tokens:
            last = json.loads(tokens[-1])
            if await run_blocking(partial(reader.partitions, last, last)):
                raise QueryFailed("there are ranges to read between an offset and itself")
            await self._at("resumed")
        if tokens and batches[len(tokens) - 1].committed is None:
            await self._batch(reader, len(tokens) - 1)
        while not self.user.is_over():
            if not await self._trigger(reader):
                if self.drains:
                    return
                await anyio.sleep(self.idle_s)
            await run_blocking(reader.reportLatestOffset)

    async def _trigger(self, reader: ShareStreamReader) -> bool:
        """Returns False if there was nothing to do."""
        batches, tokens = self.history.batches, self._tokens
        await self._at("asking")
        if self.is_older:  # the first offset comes after
            end = await run_blocking(reader.latestOffset)
            start = self._offset(reader, len(tokens) - 1)
        else:
            start = self._offset(reader, len(tokens) - 1)
            end = await run_blocking(partial(reader.latestOffset, start, None))
        if end == start:
            return False
        planned_at = monotonic()
        await self._at("planned")
        if len(batches) != len(tokens):
            raise AnotherDriver
        tokens.append(json.dumps(end))
        batches.append(Batch(tokens[-1], planned_at, monotonic()))
        await self._at("logged")
        if len(tokens) > 1:
            await run_blocking(partial(reader.commit, start))
        await self._at("committed before")
        await self._batch(reader, len(tokens) - 1)
        return True

    def _offset(self, reader: ShareStreamReader, number: int) -> dict[str, Any]:
        """That of a micro-batch, or what is before the first."""
        if number < 0:
            return reader.initialOffset()
        found: dict[str, Any] = json.loads(self._tokens[number])
        return found

    async def _batch(self, reader: ShareStreamReader, number: int) -> None:
        batch = self.history.batches[number]
        before, end = self._offset(reader, number - 1), self._offset(reader, number)
        tasks = await run_blocking(partial(reader.partitions, before, end))
        await self._at("planned tasks")
        rows = await self._read(reader, tasks)
        attempt = Attempt(self.process.name, self.process.machine, sorted(place for place, _ in rows))
        for place, value in rows:
            self.history.values.setdefault(place, set()).add(value)
        await self._at("read")
        batch.attempts.append(attempt)
        await self._decide(attempt)
        await self._at("decided")
        if self.user.is_sink_failing():
            raise QueryFailed("the sink failed")
        if batch.rows is None:
            batch.rows = attempt.rows
        self.process.note(self.process.name, f"writes batch {number}: {_told(attempt.rows)}")
        await self._at("written")
        if batch.committed is not None:
            raise AnotherDriver
        batch.committed, batch.committed_at = attempt, monotonic()
        await self._at("committed")

    async def _read(self, reader: ShareStreamReader, tasks: Sequence[InputPartition]) -> list[Row]:
        rows: list[Row] = []
        failures: list[TaskFailed] = []

        async def run(task: InputPartition) -> None:
            nonlocal rows
            for number in range(_TRIES):
                executor = self.process.executor
                if executor is None or executor.ended.is_set():
                    executor = self.process.executor = self.user.new_executor()
                try:
                    rows += await executor.run_task(reader, task)
                    return
                except TaskFailed as failure:
                    self.process.note(self.process.name, f"a task failed: {failure}")
                    if number == _TRIES - 1:
                        failures.append(failure)

        async with anyio.create_task_group() as running:
            for task in tasks:
                running.start_soon(run, task)
        if failures:
            raise QueryFailed(str(failures[0]))
        return rows

    async def _decide(self, attempt: Attempt) -> None:
        """Reject and release single rows."""
        if self.options.get("settleRows") != "true":
            return
        for verdict in ("reject", "release"):
            chosen = [place for place in attempt.rows if self.user.verdict_on(place) == verdict]
            if not chosen:
                continue
            rows: dict[str, list[list[int]]] = {}
            for partition, offset in chosen:
                rows.setdefault(str(partition), []).append([offset, offset])
            if self.process.settle is None:
                raise QueryFailed("the runner doesn't listen")
            count = await self.process.settle(verdict, {self.options["subscribe"]: rows})
            if count != len(chosen):
                raise QueryFailed(f"{count} of {len(chosen)} rows can be settled")
            self._must_be_durable(verdict, chosen)
            attempt.verdicts |= dict.fromkeys(chosen, verdict)

    def _must_be_durable(self, verdict: str, chosen: Sequence[Place]) -> None:
        kept: set[Place] = set()
        for path in self.process.disk.glob("*.verdicts"):
            for _, first, last, partition in json.loads(path.read_text())["verdicts"].get(verdict, ()):
                kept |= {(partition, offset) for offset in range(first, last + 1)}
        for place in chosen:
            if place not in kept:
                self.history.note_broken("decision not durable", f"{place}: {verdict}")

    async def _at(self, step: str) -> None:
        self.user.at(step)
        await anyio.sleep(self.chance.choice(self.pauses))
