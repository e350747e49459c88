"""The Spark source's custody, its journal and its log of verdicts, with Spark, its checkpoint and a share-partition.

The code of the source is real: `Custody`, `Stager`, `Journal`, `VerdictWriter`, `VerdictLog`. Around it are models: the
share-partition, Spark's two logs, a sink that is idempotent by batch id, a topic for the journal, a disk. The processes
of the source may die at any point, and their machine as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from kshare.spark.driver import stager, verdict_log
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.decisions import Verdict
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.stager import Stager
from kshare.spark.driver.verdict_log import VerdictLog, VerdictWriter
from kshare.spark.journal import folder_store, journal
from kshare.spark.journal.replay import replay
from kshare.spark.options import ReadOptions
from kshare.spark.ranges import Token
from tests.exhaustive.disk import Disk
from tests.exhaustive.explorer import Event
from tests.exhaustive.journal_log import JournalLog, LoggedStore
from tests.exhaustive.pictures import picture
from tests.exhaustive.stepping import Gates, SteppedLoop, place_of
from tests.fakes.spark_model import PARTITIONS, Record, World

PARTITION = PARTITIONS[0]
_ALL = 9
"""More than there are records."""
_OPTIONS = {
    "kafka.bootstrap.servers": "broker:9092",
    "group": "group",
    "subscribe": "orders",
    "settle": "journal",
}
_READ_OPTIONS = ReadOptions.parse(_OPTIONS, is_streaming=True)
_KEPT = (
    "faults_left",
    "verdicts_left",
    "found",
    "staged_ever",
    "log_of_frames",
    "late",
    "disk",
    "has_machine_crashed",
    "log",
    "offset_log",
    "commit_log",
    "sink",
    "worked_on_by_others",
    "judged",
)
_SAME = ("skipped", "_router", "_options", "_settings", "_custody", "_apply", "_store")
_NO_ROUTER: Any = None
"""What makes no difference: counters, what never changes, and what is in the fingerprint by itself."""


@dataclass(frozen=True, kw_only=True)
class CustodySizes:
    members: int = 2
    """1: the query alone in its group. 2: another consumer takes records, too."""
    records: int = 3
    faults: int = 2
    batch: int = 2
    """The most records in a micro-batch. What is in the first one of a query isn't staged."""
    has_journal: bool = True
    """Otherwise, the sink settles, and users settle single rows."""
    verdicts: int = 1
    """How many rows users settle by themselves."""


class CustodySystem(World):
    """See `System`."""

    def __init__(self, sizes: CustodySizes, kept: dict[str, Any] | None = None) -> None:
        """`kept`: what outlives processes, to begin with another process."""
        self.sizes = sizes
        self.faults_left = sizes.faults
        self.verdicts_left = 0 if sizes.has_journal else sizes.verdicts
        self.found: list[str] = []
        self.staged_ever: set[Record] = set()
        """All that a frame had which the journal's topic has taken, and which isn't void."""
        self.log_of_frames = JournalLog()
        self.late: list[tuple[int, bytes]] = []
        """Appends of dead processes that are still on their way."""
        self.disk = Disk()
        self.has_machine_crashed = False
        self._loop: SteppedLoop | None = None
        self._kept: dict[str, Any] | None = None
        """What the last process has left behind."""
        self.has_begun = False
        """Whether anything has happened in this process."""
        settle = "journal" if sizes.has_journal else "sink"
        super().__init__(0, settle, by_row=not sizes.has_journal)  # type: ignore[arg-type]
        self.log = {(PARTITION, at): "free" for at in range(sizes.records)}
        if kept is not None:
            self.__dict__ |= deepcopy(kept)
            self.start()

    def maker(self) -> Callable[[], CustodySystem] | None:
        """A process that has just begun knows nothing but what outlives processes."""
        kept = self._kept
        if self.has_begun or kept is None:
            return None
        return lambda: CustodySystem(self.sizes, kept)

    # --- the process

    def start(self) -> None:
        """Start a new process. Spark replays a batch that was logged and not committed."""
        if self._loop is not None:
            self._loop.end()
        self._loop = SteppedLoop()
        self.has_begun = False
        self._ids = 0
        self.gates = Gates(self._loop)
        self.call: asyncio.Task[None] | None = None
        """What Spark has called, and waits for."""
        self.landed: int | None = None
        self.has_landed = False
        self.is_settling: tuple[Record, Verdict] | None = None
        self.custody = Custody(self.settle, by_row=self.by_row)
        self.requests = []
        self.planned = None
        self.reading = None
        self.batch = max(self.offset_log, default=-1)
        self.is_replaying = True
        """Spark hasn't asked this process for a batch yet."""
        self.store = LoggedStore(self.log_of_frames, self.gates.wait, lambda: bool(self.late))
        self.stager: Stager | None = None
        self.verdict_log = None
        self.verdict_writer: VerdictWriter | None = None
        self._staging: asyncio.Task[None] | None = None
        _world.append(self)
        if self.sizes.has_journal:
            assert _READ_OPTIONS.journal is not None, "given"
            self.stager = Stager(_READ_OPTIONS, _READ_OPTIONS.journal, self.custody, self._send, _NO_ROUTER)
            self._staging = self._loop.create_task(self.stager.run())
        else:
            self.verdict_log = VerdictLog(self.disk, "model")  # type: ignore[arg-type]
            self.verdict_writer = VerdictWriter(self.verdict_log)
        if self.offset_log and self.batch not in self.commit_log:
            self.plan_is_logged()
        self._loop.settle()

    def end_process(self) -> None:
        """What it has sent may still arrive."""
        if self.store.appending is not None and not self.has_landed:
            self.late.append((self.store.writer, self.store.appending))
        self.lose_session()
        self._kept = deepcopy({name: self.__dict__[name] for name in _KEPT})
        self.start()

    def new_id(self) -> bytes:
        self._ids += 1
        return b"id-%d-%d" % (self.log_of_frames.claims, self._ids)

    async def write_later(self, function: Callable[..., None], *arguments: Any) -> None:
        """In place of a thread that writes to the disk."""
        await self.gates.wait("disk")
        function(*arguments)

    # --- calls of Spark

    def _call(self, call: Any) -> None:
        assert self._loop is not None
        self.call = self._loop.start(call)

    @property
    def is_called(self) -> bool:
        return self.call is not None and not self.call.done()

    def ask_latest(self, limit: int) -> None:
        self._call(self._latest(limit))

    async def _latest(self, limit: int) -> None:
        start = self.offset_log[self.batch] if self.offset_log else Token()
        is_restart = not self.custody.has_begun
        if self.stager is not None and is_restart:
            await self.stager.open(start)
        verdicts = self.verdict_log.read(start.batch) if self.verdict_log and is_restart else None
        self._send(self.custody.complete(start, verdicts))
        if self.stager is not None:
            self.stager.complete(start)
        self.planned = self.custody.plan(limit)
        self.is_replaying = False
        if self.stager is not None and self.planned is not None:
            self.stager.note_usage()

    def read(self, start: Token) -> None:
        self._call(self._read(start))

    async def _read(self, start: Token) -> None:
        end = self.offset_log[self.batch]
        if self.stager is not None and not self.custody.has_begun:
            await self.stager.open(end)
        # Spark commits the last batch after it has logged this one. The first batch has none before it.
        is_logged = self.is_replaying or start.batch > 0
        ranges, decisions = self.custody.read(start, end, is_logged=is_logged)
        self._send(decisions)
        if self.stager is not None:
            self.stager.wake()
        if self.verdict_writer is not None and end.is_settled_by_row:
            await self.verdict_writer.begin(end.batch)
        self.reading = ranges

    def settle_row(self, index: int, verdict: Verdict) -> None:
        record = self.sink[self.batch][index]
        self.verdicts_left -= 1
        self._call(self._settle_row(record, verdict))

    async def _settle_row(self, record: Record, verdict: Verdict) -> None:
        """`foreachBatch` goes on when the decision is on the disk."""
        partition, at = record
        if self.custody.settle_rows(PartitionRange(partition, at, at), verdict):
            assert self.verdict_writer is not None
            await self.verdict_writer.write(self.offset_log[self.batch].batch, self.custody.verdicts)
            self.judged[self.batch][record] = verdict

    # --- the broker

    def serve(self, *, has_response: bool) -> None:
        asked = self.requests[0]
        before = dict(self.log)
        super().serve(has_response=has_response)
        for record, state in self.log.items():
            if (before[record], state) == ("ours", "done"):
                is_rejected = any(_has(span, record) for span in asked.reject)
                self._judge(record, "reject" if is_rejected else None)

    def _judge(self, record: Record, verdict: Verdict | None) -> None:
        """The broker has settled it for ever."""
        batches = [number for number, rows in self.sink.items() if record in rows]
        if verdict is not None:
            if not any(self.judged[number].get(record) == verdict for number in batches):
                self.found.append(f"record {record[1]} was rejected, though nobody wanted that")
        elif record not in self.staged_ever and not any(number in self.commit_log for number in batches):
            self.found.append(f"record {record[1]} was accepted, and is neither staged nor processed")
        elif batches and self.judged[batches[-1]].get(record) is not None:
            self.found.append(f"record {record[1]} was accepted, though the user had settled it otherwise")

    def note_frames(self) -> None:
        """A frame has landed, or was trimmed."""
        found = replay([(frame.number, frame.data) for frame in self.log_of_frames.frames], "the topic")
        for _, frame in found.frames if found is not None else ():
            for range_ in frame.ranges:
                self.staged_ever.update((PARTITION, at) for at in range(range_.first, range_.last + 1))

    # --- events

    def events(self) -> Sequence[Event]:
        return [Event(name, is_fault) for name, is_fault in self._events()]

    def _events(self) -> Iterator[tuple[str, bool]]:
        free = [record for record, state in self.log.items() if state == "free"]
        for gate in self.gates.closed:
            if gate != "append":
                yield _GATES[gate], False
            elif self.has_landed:
                yield "the process hears that the frame is in the journal", False
            else:
                yield "the journal's topic takes the frame", False
        if self.requests:
            yield "the broker carries out an acknowledgement, and responses", False
        if self.custody.has_begun and free and (self.stager is None or self.stager.has_room):
            yield "the broker delivers all records that are free", False
        yield from self._events_of_spark()
        if self.sizes.members > 1:
            yield from self._events_of_others(free)
        if self.late:
            yield "a frame of a dead process arrives", False
        if not self.disk.is_synced and self.faults_left:
            yield "the disk has written everything by now", False
        if self.faults_left:
            yield from self._faults()

    def _events_of_spark(self) -> Iterator[tuple[str, bool]]:
        if self.is_called:
            return
        if self.planned is not None:
            yield "Spark logs the plan", False
        elif self.reading is None:
            if not self.is_idle:
                yield "Spark asks what is next", False
        elif self.batch not in self.sink:
            yield "Spark writes the batch to the sink", False
        else:
            yield "Spark commits the batch", False
            if self.verdicts_left:
                for index, (_, at) in enumerate(self.sink[self.batch]):
                    yield f"the user rejects record {at} [{index}]", False
                    yield f"the user releases record {at} [{index}]", False

    @property
    def is_idle(self) -> bool:
        """Whether Spark would learn nothing new by asking."""
        newest = self.offset_log.get(self.batch)
        return (
            self.custody.has_begun
            and not self.custody.fresh
            and not self.custody.in_flight
            and not self.requests
            and self.custody.resume() == (newest or Token())
            and (newest is None or self.batch in self.commit_log)
        )

    def _events_of_others(self, free: Sequence[Record]) -> Iterator[tuple[str, bool]]:
        if free and self.sizes.members > 1 and "theirs" not in self.log.values():
            yield "another consumer gets a record", False
        if "theirs" in self.log.values():
            yield "another consumer accepts its record", False
            yield "another consumer releases its record", False

    def _faults(self) -> Iterator[tuple[str, bool]]:
        if self.requests:
            yield "the response to an acknowledgement is lost, and the session with it", True
        if "ours" in self.log.values():
            yield "the session ends", True
            if self.requests:
                yield "locks expire while acknowledgements are on their way", True
        yield "the process dies", True
        if not self.disk.is_synced:
            yield "the machine crashes, and what isn't synced is gone", True
            yield "the machine crashes, and files whose contents aren't synced are torn", True

    def do(self, name: str) -> None:
        self.has_begun = True
        if name in _FAULTS:
            self.faults_left -= 1
        if name.startswith("the user"):
            verdict: Verdict = "reject" if "rejects" in name else "release"
            self.settle_row(int(name[name.index("[") + 1 : -1]), verdict)
        else:
            _DEEDS[name](self)
        assert self._loop is not None
        self._loop.settle()
        for task in (self.call, self._staging):
            if task is not None and task.done():
                task.result()
        if self.stager is not None and self.stager.failure is not None:
            raise self.stager.failure
        if self._loop.problems:
            raise AssertionError(self._loop.problems[0])

    def open_gate(self, name: str) -> None:
        self.gates.open(name)

    def land(self) -> None:
        assert self.store.appending is not None
        self.landed = self.log_of_frames.append(self.store.writer, self.store.appending)
        self.has_landed = True
        self.note_frames()

    def hear(self) -> None:
        number, self.landed, self.has_landed, self.store.appending = self.landed, None, False, None
        self.gates.open("append", number)

    def arrive_late(self) -> None:
        self.log_of_frames.append(*self.late.pop(0))
        self.note_frames()

    def take(self, most: int) -> None:
        if self.stager is not None:
            self.stager.on_acquired(1)
        self.fetch(PARTITION, most)

    def expire(self) -> None:
        for record, state in self.log.items():
            if state == "ours":
                self.log[record] = "free"
                self.custody.lost(PartitionRange(record[0], record[1], record[1]))

    def crash_machine(self, *, keeps_names: bool) -> None:
        self.has_machine_crashed = True
        self.disk.crash(keeps_names=keeps_names)
        self.end_process()

    # --- what is explored

    def fingerprint(self) -> Hashable:
        tasks = (self.call, self._staging)
        return (
            tuple(self.log.values()),
            picture(self.offset_log),
            tuple(sorted(self.commit_log)),
            picture(self.sink),
            picture(self.judged),
            frozenset(self.worked_on_by_others),
            picture(self.requests),
            picture(self.planned),
            picture(self.reading),
            self.is_replaying,
            tuple(place_of(task) if task is not None and not task.done() else None for task in tasks),
            tuple(self.gates.closed),
            self.landed,
            self.has_landed,
            self.store.writer,
            self.store.appending,
            tuple(self.late),
            picture(self.log_of_frames),
            frozenset(self.staged_ever),
            picture(self.custody, _SAME),
            picture(self.stager, _SAME),
            picture(self.verdict_log, ("_path",)),
            self.disk.fingerprint(),
            self.has_machine_crashed,
            self.faults_left,
            self.verdicts_left,
            self._ids,
        )

    def problems(self) -> Iterable[str]:
        yield from self.found
        emitted = self.emitted()
        if self.sizes.has_journal and len(emitted) != len(set(emitted)):
            yield "a record was emitted twice"
        if not self.has_machine_crashed:
            last: dict[Record, Verdict | None] = {}
            for number, rows in sorted(self.sink.items()):
                for record in rows:
                    if last.get(record, "release") is None:
                        yield f"record {record[1]} was accepted, and emitted again"
                    last[record] = self.judged[number].get(record)

    @property
    def is_done(self) -> bool:
        return (
            set(self.log.values()) <= {"done"}
            and self.is_idle
            and not self.is_called
            and self.planned is None
            and self.reading is None
            and not self.gates.closed
            and not self.late
        )

    def problems_when_done(self) -> Iterable[str]:
        missing = self.log.keys() - {*self.emitted(), *self.worked_on_by_others}
        for record in sorted(missing):
            yield f"record {record[1]} is lost: it is done, and nobody has processed it"
        for record in self.log:
            batches = [number for number, rows in sorted(self.sink.items()) if record in rows]
            is_released = batches and self.judged[batches[-1]].get(record) == "release"
            if is_released and record not in self.worked_on_by_others:
                yield f"record {record[1]} is lost: the user released it, and it never came again"

    def close(self) -> None:
        assert self._loop is not None
        self._loop.end()
        _world.clear()


_world: list[CustodySystem] = []
"""The one whose code runs."""
_GATES = {
    "claim": "the journal's topic takes the claim of a writer",
    "disk": "the disk writes the decisions",
}
_DEEDS: dict[str, Callable[[CustodySystem], object]] = {
    **{name: lambda system, gate=gate: system.open_gate(gate) for gate, name in _GATES.items()},  # type: ignore[misc]
    "the process hears that the frame is in the journal": CustodySystem.hear,
    "the journal's topic takes the frame": CustodySystem.land,
    "the disk has written everything by now": lambda system: system.disk.sync_all(),
    "a frame of a dead process arrives": CustodySystem.arrive_late,
    "the broker carries out an acknowledgement, and responses": lambda system: system.serve(
        has_response=True
    ),
    "the broker delivers all records that are free": lambda system: system.take(_ALL),
    "Spark logs the plan": CustodySystem.log_plan,
    "Spark asks what is next": lambda system: system.ask_latest(system.sizes.batch),
    "Spark writes the batch to the sink": CustodySystem.write_sink,
    "Spark commits the batch": CustodySystem.commit,
    "another consumer gets a record": lambda system: system.other_takes(PARTITION, 1),
    "another consumer accepts its record": lambda system: system.other_ends(is_done=True),
    "another consumer releases its record": lambda system: system.other_ends(is_done=False),
}
_FAULTS: dict[str, Callable[[CustodySystem], object]] = {
    "the response to an acknowledgement is lost, and the session with it": lambda system: system.serve(
        has_response=False
    ),
    "the session ends": CustodySystem.lose_session,
    "locks expire while acknowledgements are on their way": CustodySystem.expire,
    "the process dies": CustodySystem.end_process,
    "the machine crashes, and what isn't synced is gone": lambda system: system.crash_machine(
        keeps_names=False
    ),
    "the machine crashes, and files whose contents aren't synced are torn": lambda system: (
        system.crash_machine(keeps_names=True)
    ),
}
_DEEDS |= _FAULTS


def _has(span: PartitionRange, record: Record) -> bool:
    return span.partition == record[0] and span.first <= record[1] <= span.last


async def _nothing(*arguments: object) -> None:
    """In place of what asks the cluster."""


async def _no_journals(router: object) -> tuple[list[Any], int]:
    return [], 0


async def _store_of(*arguments: object) -> LoggedStore:
    return _world[-1].store


@contextmanager
def modelled() -> Iterator[None]:
    """The disk, the journal's topic, ids and times are those of the system that is explored."""

    async def write_later(function: Callable[..., None], *arguments: Any) -> None:
        await _world[-1].write_later(function, *arguments)

    class Os:
        def __getattr__(self, name: str) -> Any:
            return getattr(_world[-1].disk, name)

    with ExitStack() as stack:
        for module, name, instead in (
            (stager, "check_retention", _nothing),
            (stager, "opened_store", _store_of),
            (stager, "all_journals", _no_journals),
            (stager, "monotonic", lambda: 0.0),
            (stager, "wall_time", lambda: 0.0),
            (stager, "_TRIM_S", 0.0),
            (journal, "random_bytes", lambda count: _world[-1].new_id()),
            (verdict_log, "run_sync", write_later),
            (verdict_log, "os", Os()),
            (folder_store, "os", Os()),
        ):
            stack.enter_context(patch.object(module, name, instead))
        yield
