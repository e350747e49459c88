"""A world of workers: an embedded cluster, a producer, and workers of one group, whose handlers take, fail and hang.

Workers are stopped, killed and cut off; their dependency goes down; limits of the group change. The judge is that of
the storm of restless workers (tests/integration/restless_workers), which real brokers go through as well. It reads what
handlers wrote down, what is in the logs of topics, and what passed over connections.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from random import Random
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from kshare import AdminClient, KshareError, Producer
from kshare.broker.cluster import Cluster
from kshare.broker.cluster_server import ClusterServer
from kshare.broker.settings import Resource
from kshare.surroundings import wall_time
from tests.integration.consumer_storm.fault_book import FaultBook
from tests.integration.consumer_storm.judging import ACCEPT, RENEW
from tests.integration.restless_workers.judging import Judgement, Place
from tests.integration.worker_storm.diary import Event
from tests.simulation.attributes import headers_of
from tests.simulation.ledger import ERA
from tests.simulation.loop import SimulatedTime
from tests.simulation.pace import Pace, slow_hours
from tests.simulation.processes import Process, wall_time_at
from tests.simulation.runs import Redelivered
from tests.simulation.tap import ShareTap
from tests.simulation.working import (
    ALWAYS_HANGS,
    BLOCKS,
    DEAD,
    GROUP,
    RESULTS,
    SWALLOWS,
    TOPIC,
    HandlerPlan,
    Scene,
    WorkerProcess,
    build,
)
from tests.simulation.world import Plan, Verdict, World, records_of

GRAVE = "dlq.orders"
_LETTERS_S = 20.0
_NEXT_RECORDS_S, _GOOD_ONES = 10.0, 5
_COUNT_EVERY_S = 1.0
"""How often what is left is counted. Each time, all stored states are read again, which takes longest of all."""
_ROUNDED_S = 0.002
"""Timestamps of records are in milliseconds."""
_SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    # So that the judge knows when copies and results were really written, and not when that was begun.
    "log.message.timestamp.type": "LogAppendTime",
}
_MILD = frozenset({"stop", "restarts", "limits", "down"})
"""With these alone, but for restarts, no delivery may end without its handler, unless it has deliveries left. With a
limit of three, the second one is the last that is safe, as the docs say."""
_EARLY = "accepted early"
_UNPUBLISHED = "accepted without its result"
_LATE, _SLOW = "begun late", "ends too late"
_STAYED, _EPOCHS, _COPIES, _TWICE = "still a member", "wrong epoch", "wrong copy", "done twice"
_QUIET = frozenset({"stop", "restarts", "limits", "down"})
"""With these alone, what is done is accepted before anything else happens to it."""
_BATCHING_S = 0.15
"""By then, a batch is complete that was collected when its topic was paused, if writing copies takes no time."""
_RESTARTS = 5
_PAUSED_S = 0.2
_LOWEST_LIMIT = 4
"""Below, there is little room for deliveries that end without a result, as the docs say."""
_LATER_S = 13.0
"""By then, workers know all limits of their group: they look every ten seconds."""
_LAST_S = 25.0
"""How long a worker may take to end, beyond its `drain_timeout`: copies are written for ten seconds at most."""
_SLOW_CALM_S = 14_400.0
_SMALLEST_WINDOW, _USUAL_WINDOW, _LARGEST_WINDOW = 100, 2000, 4000


class _Book(FaultBook):
    """Knows the partitions of retry topics, too, by numbers of their own."""

    def __init__(self, cluster: Cluster, chance: Random, lock_s: float) -> None:
        super().__init__(b"", chance, lock_s)
        self._cluster = cluster
        self._topics = [TOPIC]
        """Numbers are counted from `ERA` times the index here."""

    def number(self, topic_id: bytes, index: int) -> int | None:
        topic = self._cluster.find(topic_id)
        if topic is None or not (topic.name == TOPIC or topic.name.startswith(f"{TOPIC}.retry.")):
            return None
        if topic.name not in self._topics:
            self._topics.append(topic.name)
        return self._topics.index(topic.name) * ERA + index

    def name(self, number: int) -> str:
        return f"{self._topics[number // ERA]}[{number % ERA}]"

    def place(self, number: int, offset: int) -> Place:
        return self._topics[number // ERA], number % ERA, offset


class _Fates:
    """When what became of each record: whatever was written, or a function has returned for it."""

    def __init__(self) -> None:
        self.succeeded: dict[int, float] = defaultdict(lambda: inf)
        """When a handler has first returned for it, by its number."""
        self.published: dict[int, float] = defaultdict(lambda: inf)
        self.kept: dict[int, list[tuple[float, Place | None]]] = defaultdict(list)
        """When copies and dead letters were written, and where. None if a function keeps dead letters."""
        self.numbers: dict[Place, int] = {}
        """Those of copies."""

    def passed_on(self, number: int, place: Place) -> float:
        """When the first copy was written that may be accepted instead: one that follows, if it is a copy itself."""
        own = max((at for at, where in self.kept[number] if where == place), default=-inf)
        return min((at for at, where in self.kept[number] if at >= own and where != place), default=inf)


@dataclass(frozen=True, kw_only=True)
class WorkerPlan(Plan):
    workers: int
    lock_s: float
    limit: int
    handlers: HandlerPlan
    calm_s: float = 300.0
    """How long it may take until nothing is left, once nothing is disturbed any more."""
    stays: bool = False
    """Whether the workers that run at the end do the rest. Otherwise they are stopped, and another one does it."""
    window: int = _USUAL_WINDOW
    """The largest in-flight window of a partition. A small one can be full of a record that always fails: while the
    breaker is open, nothing else comes that could be tried. So it is for handlers without a breaker.
    """

    def smaller(self) -> Iterator[Self]:
        yield from super().smaller()
        for handlers in self.handlers.smaller():
            yield replace(self, handlers=handlers)

    @staticmethod
    def numbers() -> Iterable[str]:
        return ("nodes", "partitions", "workers")


class WorkerWorld(World):
    faults = (
        *("kill", "cut", "stall", "refuse", "node", "leader", "responses"),
        *("stop", "stop_twice", "restarts", "limits", "down"),
    )
    changes = ("suspend", "deletion", "partitions", "reset")
    topic, group = TOPIC, GROUP
    watchers = ("judge", "operator")
    longest_end_s = 3_600.0
    plan: WorkerPlan

    @classmethod
    def drawn(cls, seed: int) -> WorkerPlan:
        chance = Random(seed)
        kinds = sorted(_MILD) if chance.random() < 0.4 else cls.faults
        handlers = HandlerPlan.drawn(seed)
        if kinds != cls.faults:  # what must not happen then can happen to those who stand still
            handlers = replace(handlers, oddities=handlers.oddities - {BLOCKS})
        return WorkerPlan(
            seed=seed,
            nodes=chance.choice([1, 1, 2, 3]),
            partitions=chance.choice([1, 2, 4]),
            workers=chance.choice([1, 2, 3]),
            lasts_s=chance.choice([5.0, 10.0, 20.0]),
            lock_s=chance.choice([1.0, 1.5, 3.0]),
            limit=chance.choice([5, 5, 8] if kinds != cls.faults else [3, 5, 5, 8]),
            handlers=handlers,
            rate=chance.choice([0.0, 0.03, 0.1]),
            delay_s=chance.choice([0.0005, 0.002, 0.05]),
            capacity=chance.choice([4_096, 65_536, 1 << 20]),
            faults=frozenset(kind for kind in kinds if chance.random() < 0.6),
            stays=chance.random() < 0.5,
            window=chance.choice(
                [_LARGEST_WINDOW] if handlers.has_breaker else [_SMALLEST_WINDOW, _USUAL_WINDOW]
            ),
        )

    @classmethod
    def slow(cls, seed: int) -> WorkerPlan:
        chance = Random(f"{seed} slow")
        usual = cls.drawn(seed)
        return replace(
            usual,
            pace=Pace.slow(seed),
            lasts_s=slow_hours(seed),
            lock_s=chance.choice([15.0, 30.0]),
            handlers=replace(HandlerPlan.slow(seed), oddities=usual.handlers.oddities),
            calm_s=_SLOW_CALM_S,
        )

    def __init__(self, plan: WorkerPlan, time: SimulatedTime) -> None:
        super().__init__(plan, time, _SETTINGS)
        self.broker.cluster.create_topic(TOPIC, plan.partitions)
        self.broker.cluster.create_topic(RESULTS, 1)
        self.broker.cluster.create_topic(GRAVE, 1, configs={"errors.deadletterqueue.group.enable": "true"})
        self._configure(plan.limit, plan.lock_s)
        self.book = _Book(self.broker.cluster, Random(f"{plan.seed} faults"), plan.lock_s)
        self.book.done = self.done
        redelivered = Redelivered(self.book.acquired)
        self.scene = Scene(plan.handlers, plan.lock_s, time.jump, redelivered.has)
        if plan.faults <= _QUIET and not plan.changes:
            self.scene.batches_pause_after_s = _BATCHING_S
        self.scene.keeps_delays = plan.window >= _USUAL_WINDOW and plan.faults <= _MILD and not plan.changes
        self._left: int | None = None
        """How many records the workers have left that stayed, if any did."""
        self._stayed: list[str] = []
        """Members whose worker has ended, and didn't say that they couldn't leave."""
        self._slow: list[str] = []
        """Which workers took too long to end."""
        self._written = 0
        """How many records; the next one has this number."""
        self._is_paused = False
        """No worker may start."""
        self._is_staying = False
        """Whether workers go on when everything else is over."""
        self._limit = plan.limit
        self._lowered: list[float] = []
        self._ends: dict[int, int] = {}
        """Of each partition, the offset after the last record that somebody had to process. A request that is stuck in
        a connection may bring more when all workers have ended."""

    def _configure(self, limit: int, lock_s: float) -> None:
        settings = {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": str(limit),
            "share.record.lock.duration.ms": str(round(lock_s * 1000)),
            "share.partition.max.record.locks": str(self.plan.window),
            **self.plan.pace.session_settings,
            "errors.deadletterqueue.topic.name": GRAVE,
        }
        self.broker.configs.replace(Resource.GROUP, GROUP, settings)

    def new_tap(self) -> ShareTap:
        return ShareTap(self.book, partial(self.note, "broker"))

    def set_rate(self, rate: float) -> None:
        """Called with 0 when nothing is disturbed any more."""
        self.book.rate = rate
        if not rate:
            self.scene.is_down = False

    # --- programs

    def start(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        for _ in range(self.plan.workers):
            self._start_worker(tasks)
        tasks.start_soon(self._write, self.new_process("writer"))
        tasks.start_soon(self._end_when_over)

    def may_be_killed(self, process: Process) -> bool:
        return process.name.startswith("worker")

    def restart(self, tasks: TaskGroup, killed: Process) -> None:
        self._start_worker(tasks)

    def _start_worker(self, tasks: TaskGroup) -> None:
        process = self.new_process(f"worker-{len(self.processes)}", WorkerProcess)
        tasks.start_soon(self._live, process)

    async def _live(self, process: WorkerProcess) -> None:
        process.enter()
        chance = Random(f"{self.plan.seed} {process.number}")
        try:
            with process.scope:
                while True:
                    while self._is_paused and not self.is_over:
                        await anyio.sleep(_PAUSED_S)
                    worker = build(self.bootstrap, self.scene, process, chance)
                    said = len(process.lines)
                    try:
                        await worker.serve(wall_clock=wall_time)
                        self._note_whether_left(process, process.lines[said:])
                        return
                    except Exception as error:
                        process.log(f"ended by {type(error).__name__}: {error}")
                        process.worker = None
                    finally:
                        with anyio.CancelScope(shield=True):
                            await self.note_left_behind(process)
                    await anyio.sleep(0.2)
                    if self.is_over and not self._is_staying:  # nobody tells the next one to stop
                        return
        finally:
            process.worker = None
            process.ended.set()

    def _note_whether_left(self, process: WorkerProcess, said: list[str]) -> None:
        if process.was_killed or any("leav" in text for text in said):
            return
        for name in (GROUP, f"{GROUP}.retry"):
            groups = self.broker.share_groups
            members = groups.find(name).members if groups.has(name) else ()
            mine = [member for member in members if self.book.owners.get(member) == process.name]
            self._stayed += [
                f"{member} of {process.name}, {name}, at {anyio.current_time():.3f}" for member in mine
            ]

    async def _write(self, process: Process) -> None:
        process.enter()
        chance = Random(f"{self.plan.seed} writer")
        try:
            with process.scope:
                while not self.is_over:
                    try:
                        async with Producer(self.bootstrap) as producer:
                            await self._write_with(producer, chance)
                    except KshareError as error:
                        if not self.plan.changes:
                            raise
                        self.note(process.name, f"{type(error).__name__}: {error}")
        finally:
            process.ended.set()

    async def _enqueue(self, producer: Producer, number: int, key: bytes, partition: int) -> None:
        self.scene.keys[number] = key
        headers = headers_of(number)
        await producer.enqueue(TOPIC, b"%d" % number, key=key, partition=partition, headers=headers)

    async def _write_with(self, producer: Producer, chance: Random) -> None:
        while not self.is_over:
            partition = chance.randrange(self.partitions)
            for _ in range(chance.choice([1, 5, 20, 60])):
                await self._enqueue(producer, self._written, b"%d" % chance.randrange(10), partition)
                self._written += 1
            await producer.flush()
            await anyio.sleep(chance.uniform(0.02, 0.3) * self.plan.pace.slowness)

    # --- faults

    async def _stop(self, server: ClusterServer, tasks: TaskGroup, times: int = 1) -> None:
        serving = [
            process for process in self._workers() if process.worker is not None and not process.was_killed
        ]
        if serving:
            process = self.chance.choice(serving)
            worker = process.worker
            for _ in range(times):
                self.note(process.name, "is told to stop")
                if process.worker is worker is not None:
                    process.stop()
                await anyio.sleep(self.chance.uniform(0.0, 0.5) if times > 1 else 0.0)
            self._start_worker(tasks)

    async def _stop_twice(self, server: ClusterServer, tasks: TaskGroup) -> None:
        await self._stop(server, tasks, 2)

    async def _restarts(self, server: ClusterServer, tasks: TaskGroup) -> None:
        """One worker after another is replaced, while their dependency is down."""
        self.scene.is_down = True
        for _ in range(_RESTARTS):
            await self._stop(server, tasks)
            await anyio.sleep(self.chance.uniform(0.3, 1.5) * self.plan.pace.stretch(self.chance))
        self.scene.is_down = self.chance.random() < 0.5

    async def _limits(self, server: ClusterServer, tasks: TaskGroup) -> None:
        self._change_limit(self.chance.choice([_LOWEST_LIMIT, 5, 8]))

    def _change_limit(self, limit: int) -> None:
        if limit < self._limit:
            self._lowered.append(wall_time())
        self._limit = limit
        self._configure(limit, self.plan.lock_s * self.chance.choice([1.0, 2.0]))

    @asynccontextmanager
    async def emptied_group(self) -> AsyncIterator[None]:
        self._is_paused = True
        for process in self._workers():
            if process.worker is not None and not process.was_killed:
                process.stop()
        try:
            yield
        finally:
            self._is_paused = False
            for _ in range(0 if self.is_over else self.plan.workers):
                self._start_worker(self._tasks)

    async def _down(self, server: ClusterServer, tasks: TaskGroup) -> None:
        self.scene.is_down = not self.scene.is_down
        self.note("world", f"the dependency is {'down' if self.scene.is_down else 'up'}")

    def _workers(self) -> Iterator[WorkerProcess]:
        return (process for process in self.processes if isinstance(process, WorkerProcess))

    # --- the end

    async def _end_when_over(self) -> None:
        while not self.is_over:
            await anyio.sleep(0.1 * self.plan.pace.look_every)
        self._is_staying = self.plan.stays and any(worker.is_serving for worker in self._workers())
        if self._is_staying:
            self._begin_judging()
            self.scene.is_calm = True
            if "limits" in self.plan.faults:
                self._change_limit(_LOWEST_LIMIT)
            await anyio.sleep(_LATER_S)
            await self._write_a_hundred()
            self._left = await self._until_nothing_is_left()
        await self._end_all()

    def _begin_judging(self) -> None:
        """This task reads from now on what the brokers know."""
        judge = self.new_process("judge")
        judge.ended.set()
        judge.enter()

    async def _end_all(self) -> None:
        """Tell all to stop, also those that are just starting."""
        self.scene.is_calm = True
        self._ends = {
            partition.index: partition.log.end_offset
            for partition in self.broker.cluster.topics[TOPIC].partitions
        }
        for process in self._workers():
            while process.worker is None and not process.ended.is_set():
                await anyio.sleep(_PAUSED_S)
            while not process.ended.is_set():
                process.stop()
                with anyio.move_on_after(self.plan.handlers.drain_s + _LAST_S) as scope:
                    await process.ended.wait()
                if scope.cancelled_caught:
                    self._slow.append(f"{process.name} goes on at {anyio.current_time():.3f}")

    async def _calm(self) -> int:
        """Let one worker go on until nothing is left, or for `calm_s`. Returns how many records are left.

        Now and then, if there are no fewer than before, other records come: while all that are left always fail, the
        breaker stays open.
        """
        self._begin_judging()
        async with anyio.create_task_group() as tasks:
            self._start_worker(tasks)
            left = await self._until_nothing_is_left()
            await self._end_all()
        return left

    async def _until_nothing_is_left(self) -> int:
        left = before = -1
        with anyio.move_on_after(self.plan.calm_s + self._hanging_s()):
            while left:
                with anyio.move_on_after(_NEXT_RECORDS_S * self.plan.pace.look_every):
                    while left:
                        every_s = _COUNT_EVERY_S * self.plan.pace.look_every
                        await self.sleep_while_behind(every_s, *self._groups())
                        left = await self._count_left()
                if left < 0 or left >= before:  # otherwise they might come faster than they can be processed
                    left += await self._write_good_ones()
                before = left
        return left

    def _hanging_s(self) -> float:
        """How much longer it may take because of records that always hang.

        Until such a record becomes a dead letter, it and two copies of it are delivered up to the group's limit. Each
        time, a batch takes until the time limit, and then the record alone. Meanwhile nothing else has its slot.
        """
        handlers = self.plan.handlers
        if ALWAYS_HANGS not in handlers.oddities:
            return 0.0
        hanging = sum(number % 100 == ALWAYS_HANGS for number in range(self._written))
        runs = self.plan.limit * (3 if handlers.has_retry_topics else 1) * (2 if handlers.batch_size else 1)
        return hanging * runs * handlers.time_limit_s / handlers.concurrency

    async def _write_a_hundred(self) -> None:
        """Of each kind one, for those who have been running for a while."""
        async with Producer(self.bootstrap) as producer:
            for number in range(self._written, self._written + 100):
                partition = number % self.plan.partitions
                await self._enqueue(producer, number, b"%d" % (number % 10), partition)
            self._written += 100

    async def _write_good_ones(self) -> int:
        """Each worker gets some, and their keys have no others that they would have to wait for. Returns how many."""
        self._written += 100 - self._written % 100
        async with Producer(self.bootstrap) as producer:
            for number in range(_GOOD_ONES):
                for partition in range(self.plan.partitions):
                    await self._enqueue(producer, self._written, b"good %d" % number, partition)
                    self._written += 100
        return _GOOD_ONES * self.plan.partitions

    def _groups(self) -> list[str]:
        return [GROUP, f"{GROUP}.retry"] if self.plan.handlers.has_retry_topics else [GROUP]

    async def _count_left(self) -> int:
        """How many records aren't settled, nor copies of them; -1 if a group hasn't read anything yet."""
        left = 0
        async with AdminClient(self.bootstrap) as admin:
            for group in self._groups():
                progress = await admin.share_group_progress(group)
                if not progress:
                    return -1
                left += sum((row.end_offset or 0) if row.lag is None else row.lag for row in progress)
        return left

    async def judged(self) -> Verdict:
        left = await self._calm() if self._left is None else self._left
        everything = {(TOPIC, *place): int(value) for place, value in self.ledger.written().items() if value}
        written: dict[Place, int] = {
            place: number
            for place, number in everything.items()
            if self.ledger.gone(place[1:]) == inf and place[2] < self._ends.get(place[1], 0)
        }
        for name in self.broker.cluster.topics:
            if name.startswith(f"{TOPIC}.retry."):
                for index, partition in enumerate(self.broker.cluster.topics[name].partitions):
                    written |= {
                        (name, index, record.offset): _number(record) for record in _numbered(partition)
                    }
        logs = ["".join(f"{line}\n" for line in worker.lines) for worker in self._workers()]
        entries = [entry for worker in self._workers() for entry in worker.entries]

        def judge() -> Judgement:
            archived = dict(self._archived())
            reasons = {place: reason for place, (reason, _) in archived.items()}
            times = {place: at for place, (_, at) in archived.items()}
            return Judgement(written, entries, self._letters(), reasons, logs, left, times, self._lowered)

        judgement = judge()
        with anyio.move_on_after(_LETTERS_S):  # brokers write them after they have archived
            while judgement.problems["lost"]:
                await anyio.sleep(0.5)
                judgement = judge()
        excused: set[str] = set()
        blocks = BLOCKS in self.plan.handlers.oddities  # everybody stands still, and locks expire
        # Several restarts in a row, during an outage, can use up the deliveries of records that were released untried.
        is_mild = self.plan.faults <= _MILD - {"restarts"} and not self.plan.changes
        is_mild &= not any(worker.was_told_again for worker in self._workers())
        if not is_mild or self.plan.limit == 3 or blocks:
            excused = {"archived untried", "archived without a word", "buried untried"}
        elif self._lowered or (
            self.plan.handlers.is_ordered and self._has_said("couldn't be kept by dead_letters")
        ):
            # What was released while there were more deliveries may be in the last safe one now. And what has the key
            # of a record whose dead letter can't be kept can't be tried, however often workers are stopped.
            excused = {"buried untried"}
        problems = {kind: found for kind, found in judgement.problems.items() if kind not in excused}
        late = [] if blocks else [*self._begun_late()]
        others = {_LATE: late, _SLOW: self._slow, **self.scene.found}
        others |= {_STAYED: self._stayed, _EPOCHS: self.book.wrong_epochs, _COPIES: [*self._wrong_copies()]}
        # A handler that goes on when it is cancelled may end, and its record doesn't count as done.
        is_quiet = self.plan.faults <= _QUIET and not self.plan.changes and not blocks
        is_quiet &= not any(worker.was_told_again for worker in self._workers())
        if is_quiet and SWALLOWS not in self.plan.handlers.oddities:
            others[_TWICE] = [*self._done_twice()]
        wrongly = self._accepted_wrongly(judgement, everything)
        return Verdict(problems | others | wrongly, judgement.counts)

    def _has_said(self, what: str) -> bool:
        """Whether a worker has."""
        return any(what in line for worker in self._workers() for line in worker.lines)

    def _begun_late(self) -> Iterator[str]:
        """Handlers that were called after the lock of their record had run out at the broker."""
        longest = self.plan.lock_s * (2.0 if "limits" in self.plan.faults else 1.0)
        acquired: dict[tuple[int, int, int], list[float]] = defaultdict(list)
        renewed: dict[tuple[int, int], list[float]] = defaultdict(list)
        for span in self.book.acquired:
            for offset in range(span.first, span.last + 1):
                acquired[span.partition, offset, span.delivery].append(span.at)
        for row in self.book.acknowledged:
            for offset in range(row.first, row.last + 1):
                if row.kind_of(offset) == RENEW and row.error == 0:
                    renewed[row.partition, offset].append(row.responded_at)
        for process in self._workers():
            for begun in (begun for runs in process.runs for begun in runs.begun):
                where = f"{TOPIC}[{begun.partition}]@{begun.offset}"
                times = acquired[begun.partition, begun.offset, begun.delivery_count]
                starts = [at for at in (*times, *renewed[begun.partition, begun.offset]) if at <= begun.at]
                if starts and begun.at > max(starts) + longest:
                    yield f"{where}: {begun.at - max(starts) - longest:.3f} s, at {begun.at:.3f}, {process.name}"

    def _letters(self) -> list[int]:
        found = self.broker.cluster.topics.get(DEAD)
        return [
            _number(record)
            for partition in (found.partitions if found else ())
            for record in records_of(partition)
        ]

    def _archived(self) -> Iterator[tuple[Place, tuple[str, float]]]:
        """What the brokers' dead letters say, and when they were written."""
        prefix = "__dlq.errors."
        for record in records_of(self.broker.cluster.topics[GRAVE].partitions[0]):
            told = {name: bytes(value or b"").decode() for name, value in record.headers}
            place = told[f"{prefix}topic"], int(told[f"{prefix}partition"]), int(told[f"{prefix}offset"])
            yield place, (told[f"{prefix}message"], record.timestamp / 1000)

    def _fates(self, judgement: Judgement) -> _Fates:
        fates = _Fates()
        for entry in judgement.entries:
            if entry.event == Event.SUCCEEDED:
                fates.succeeded[entry.number] = min(fates.succeeded[entry.number], entry.at)
            elif entry.event == Event.BURIED:
                fates.kept[entry.number].append((entry.at, None))
        for name, topic in self.broker.cluster.topics.items():
            if name == DEAD or name.startswith(f"{TOPIC}.retry."):
                for index, partition in enumerate(topic.partitions):
                    for record in _numbered(partition):
                        place = name, index, record.offset
                        fates.numbers[place] = _number(record)
                        fates.kept[_number(record)].append((record.timestamp / 1000, place))
        for record in records_of(self.broker.cluster.topics[RESULTS].partitions[0]):
            number = _number(record)
            fates.published[number] = min(fates.published[number], record.timestamp / 1000)
        return fates

    def _accepted_wrongly(
        self, judgement: Judgement, everything: Mapping[Place, int]
    ) -> dict[str, list[str]]:
        """What was accepted before its function had ended, or was accepted without its result. Copies, too."""
        fates = self._fates(judgement)
        numbers = {**everything, **fates.numbers}
        early: dict[int, str] = {}
        unpublished: dict[int, str] = {}
        for asked in self.book.acknowledged:
            for offset in range(asked.first, asked.last + 1):
                place = self.book.place(asked.partition, offset)
                if asked.kind_of(offset) != ACCEPT or place not in numbers:  # a mark has no number
                    continue
                number, at = numbers[place], wall_time_at(asked.at) + _ROUNDED_S
                if at >= fates.passed_on(number, place):
                    continue
                text = f"{number} ({place[0]}[{place[1]}]@{offset}) at {asked.at:.6f} by {asked.member}"
                if at < fates.succeeded[number]:
                    early.setdefault(number, text)
                if self.plan.handlers.publishes and at < fates.published[number]:
                    unpublished.setdefault(number, text)
        return {_EARLY: [*early.values()], _UNPUBLISHED: [*unpublished.values()]}

    def _done_twice(self) -> Iterator[str]:
        """Handlers that were called again for what one has finished, though nothing had happened in between."""
        entries = sorted(
            (entry for process in self._workers() for entry in process.entries), key=lambda entry: entry.at
        )
        done: dict[int, float] = {}
        for entry in entries:
            if entry.event == Event.SUCCEEDED:
                done.setdefault(entry.number, entry.at)
            elif entry.event == Event.BEGAN and entry.number in done:
                yield f"{entry.number}: done at {done[entry.number]:.3f}, begun again at {entry.at:.3f}"

    def _wrong_copies(self) -> Iterator[str]:
        """Copies and dead letters with another key than their record, or without its headers."""
        for name, topic in self.broker.cluster.topics.items():
            if name == DEAD or name.startswith(f"{TOPIC}.retry."):
                for record in (record for partition in topic.partitions for record in _numbered(partition)):
                    key, wanted = record.key, self.scene.keys.get(_number(record))
                    if (None if key is None else bytes(key)) != wanted:
                        yield f"{_number(record)} in {name}: key {key!r}, not {wanted!r}"
                    headers = headers_of(_number(record))
                    if record.headers[: len(headers)] != headers:
                        yield f"{_number(record)} in {name}: headers {record.headers!r} don't begin with {headers!r}"


def _numbered(partition: Any) -> Iterator[Any]:
    """Its records, but for marks of runs that are over, which have no value."""
    return (record for record in records_of(partition) if record.value)


def _number(record: Any) -> int:
    return int(bytes(record.value or b""))
