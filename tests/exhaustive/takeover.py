"""Runners of a query that take its journal over from each other: reads, claims, appends and trims in every order.

The journal's code is real: `open_journal`, `Journal`, `replay`. Around it are models: the journal's topic, which takes
one call after another, and Spark's checkpoint. A runner may be suspended before each of its calls, for any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from kshare.spark.journal import journal
from kshare.spark.journal.frames import JournalDamaged
from kshare.spark.journal.journal import Journal, nobody_is_running, open_journal, require_match
from kshare.spark.journal.replay import replay
from kshare.spark.journal.store import JournalError, JournalFenced
from kshare.spark.ranges import JournalPosition, RecordRange
from tests.exhaustive.explorer import Event
from tests.exhaustive.journal_log import JournalLog
from tests.exhaustive.pictures import picture
from tests.exhaustive.stepping import Gates, SteppedLoop, place_of

_TOPIC_ID = "00000000-0000-0000-0000-000000000007"
_LATE = "a frame of a dead runner arrives"


@dataclass(frozen=True, kw_only=True)
class TakeoverSizes:
    members: int = 2
    """Runners at a time. Each fault allows one more start."""
    records: int = 2
    """How many are staged, each in a frame of its own."""
    faults: int = 1


class CheckpointTaken(JournalError):
    """Another runner has logged a micro-batch in Spark's checkpoint."""


class Runner:
    """A process of the query, and its `JournalStore`."""

    place = "topic journal"

    def __init__(self, name: str, system: TakeoverSystem) -> None:
        self.name = name
        self._system = system
        self._log = system.log
        self.known = system.checkpoint
        self.journal: Journal | None = None
        self.hand: list[int] = []
        """Records that it has to process."""
        self.claim_number = 0
        self.appending: bytes | None = None
        """What is on its way to the topic."""
        self.task = system.loop.start(self._open())

    @property
    def is_idle(self) -> bool:
        return self.task.done()

    # --- the store

    async def read(self, after: int = -1) -> list[tuple[int, bytes | None]]:
        await self._turn("reads the journal")
        return [(frame.number, frame.data) for frame in self._log.frames if frame.number > after]

    async def claim(self) -> None:
        await self._turn("becomes its newest writer")
        self.claim_number = self._log.claim()

    async def append(self, data: bytes, expected: int) -> int:
        self.appending = data
        await self._turn("writes a frame")
        self.appending = None
        number = self._log.append(self.claim_number, data)
        if number is None:
            raise JournalFenced("another writer has claimed it")
        return number

    async def trim(self, before: int) -> None:
        await self._turn("deletes what is done")
        self._log.trim(before)

    async def _turn(self, what: str) -> None:
        await self._system.gates.wait(f"{self.name} {what}")

    # --- what it does

    async def _open(self) -> None:
        self.journal = await open_journal(
            self, group="group", member="member", known=self.known, is_running=nobody_is_running, now_ms=0
        )
        taken = 0 if self.known is None else self.known.taken
        self.hand = [*_offsets(self.journal.staged(taken))]

    def stage(self) -> None:
        self.task = self._system.loop.start(self._stage(self._system.next_record()))

    async def _stage(self, record: int) -> None:
        assert self.journal is not None, "opened"
        await self.journal.append([RecordRange("orders", _TOPIC_ID, 0, record, record)], 1, 0)
        self._system.accepted.add(record)
        self.hand.append(record)

    def process(self) -> None:
        """In one micro-batch, which it logs in the checkpoint."""
        self.task = self._system.loop.start(self._process())

    async def _process(self) -> None:
        system, journal = self._system, self.journal
        assert journal is not None, "opened"
        if system.checkpoint != self.known:
            raise CheckpointTaken
        self.known = system.checkpoint = journal.position(journal.end)
        system.processed += self.hand
        self.hand = []
        journal.complete(self.known.taken)
        await journal.tell_what_is_done(0)
        await journal.trim()

    def fingerprint(self) -> Hashable:
        here = () if self.is_idle else (place_of(self.task), _variables(self.task))
        without = ("_store",)
        return (self.claim_number, self.known, tuple(self.hand), picture(self.journal, without), *here)


class TakeoverSystem:
    """See `System`."""

    def __init__(self, sizes: TakeoverSizes) -> None:
        self.sizes = sizes
        self.faults_left = sizes.faults
        self.starts_left = sizes.members + sizes.faults
        self.loop = SteppedLoop()
        self.gates = Gates(self.loop)
        self.log = JournalLog()
        self.checkpoint: JournalPosition | None = None
        self.accepted: set[int] = set()
        """Records that brokers won't deliver again."""
        self.processed: list[int] = []
        self.late: list[tuple[int, bytes]] = []
        """Frames of dead runners that are still on their way."""
        self.found: list[str] = []
        self._records = 0
        self._ids = 0
        self._runners: list[Runner | None] = [None] * sizes.members
        _systems[:] = [self]
        self._begin()

    def _begin(self) -> None:
        """The query has run before: its checkpoint knows the journal."""
        first = Runner("the first runner", self)
        while not first.is_idle:
            self.gates.open(self.gates.closed[0])
        assert first.journal is not None, "opened"
        self.checkpoint = first.journal.position(0)

    def next_record(self) -> int:
        self._records += 1
        return self._records - 1

    def new_id(self) -> bytes:
        self._ids += 1
        return b"%d" % self._ids

    # --- events

    def events(self) -> Sequence[Event]:
        return [Event(name, is_fault) for name, is_fault in self._events()]

    def _events(self) -> Iterator[tuple[str, bool]]:
        yield from ((name, False) for name in sorted(self.gates.closed))
        for number, runner in enumerate(self._runners):
            if runner is None:
                if self.starts_left:
                    yield f"runner {number} starts", False
                continue
            if runner.is_idle:
                if self._records < self.sizes.records:
                    yield f"runner {number} stages a record", False
                if runner.hand:
                    yield f"runner {number} processes what is staged", False
            if self.faults_left:
                yield f"runner {number} dies", True
        if self.late:
            yield _LATE, False

    def do(self, name: str) -> None:
        if name in self.gates.closed:
            self.gates.open(name)
        elif name == _LATE:
            self.log.append(*self.late.pop(0))
        else:
            self._do_with_runner(int(name.split()[1]), name)
        for number, runner in enumerate(self._runners):
            if runner is not None and runner.is_idle:
                self._look_at_end(number, runner)
        if self.loop.problems:
            raise AssertionError(self.loop.problems[0])

    def _do_with_runner(self, number: int, name: str) -> None:
        runner = self._runners[number]
        if runner is None:
            self.starts_left -= 1
            self._runners[number] = Runner(f"runner {number}", self)
        elif name.endswith("dies"):
            self.faults_left -= 1
            if runner.appending is not None:
                self.late.append((runner.claim_number, runner.appending))
            runner.task.cancel()
            self.loop.settle()
            self._runners[number] = None
        elif name.endswith("stages a record"):
            runner.stage()
        else:
            runner.process()

    def _look_at_end(self, number: int, runner: Runner) -> None:
        """A runner ends if another one has gone on in its place, and for no other reason."""
        try:
            runner.task.result()
        except JournalError as error:
            was_overtaken = isinstance(error, JournalFenced) or runner.known != self.checkpoint
            if not was_overtaken and "keeps writing" not in str(error):
                self.found.append(f"runner {number} failed: {error}")
            self._runners[number] = None

    # --- what is explored

    def fingerprint(self) -> Hashable:
        return (
            picture(self.log),
            self.checkpoint,
            frozenset(self.accepted),
            tuple(self.processed),
            tuple(self.late),
            self._records,
            self._ids,
            self.starts_left,
            self.faults_left,
            tuple(None if runner is None else runner.fingerprint() for runner in self._runners),
        )

    def problems(self) -> Iterable[str]:
        """What a runner would find that started now."""
        yield from self.found
        assert self.checkpoint is not None, "begun"
        try:
            contents = replay([(frame.number, frame.data) for frame in self.log.frames], "the topic")
            require_match(contents, self.checkpoint, "the topic")
        except (JournalDamaged, JournalError) as error:
            yield str(error)
            return
        assert contents is not None, "it matches"
        staged = [*_offsets(contents.staged(self.checkpoint.taken))]
        for record in sorted(self.accepted - {*staged, *self.processed}):
            yield f"record {record} was accepted, and is neither staged nor processed"
        for record in {*staged}:
            if staged.count(record) + self.processed.count(record) > 1:
                yield f"record {record} would be processed twice"

    @property
    def is_done(self) -> bool:
        running = [runner for runner in self._runners if runner is not None]
        return (
            all(runner.is_idle and not runner.hand for runner in running)
            and not self.late
            and (self._records == self.sizes.records or not (running or self.starts_left))
        )

    def problems_when_done(self) -> Iterable[str]:
        return ()

    def maker(self) -> Callable[[], TakeoverSystem] | None:
        return None

    def close(self) -> None:
        self.loop.end()


def _offsets(ranges: Iterable[RecordRange]) -> Iterator[int]:
    for range_ in ranges:
        yield from range(range_.first, range_.last + 1)


_STEADY = frozenset(
    {"self", "store", "is_running", "claim", "group", "member", "now_ms", "system", "journal", "place"}
)


def _variables(task: asyncio.Task[Any]) -> Hashable:
    """What its coroutines remember."""
    found: list[Hashable] = []
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        known = {name: value for name, value in sorted(frame.f_locals.items()) if name not in _STEADY}
        found.append(picture(known, ("_store",)))
        waiting = waiting.cr_await
    return tuple(found)


_systems: list[TakeoverSystem] = []
"""The one whose code runs."""


@contextmanager
def modelled() -> Iterator[None]:
    """Ids are those of the system that is explored."""
    with patch.object(journal, "random_bytes", lambda count: _systems[-1].new_id()):
        yield
