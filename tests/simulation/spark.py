"""A world of Spark: a query that is killed, stopped and moved again and again, over a cluster that is disturbed.

The source is the real one (`kshare/spark`), with its runner, its member and its executors' readers. What Spark does is
in `spark_driving`; the driver and the executors are processes of the simulation, and Spark's logs and the sink are on a
disk that outlives them. Other consumers of the group may take part.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from kshare import AdminClient, KshareError, Producer, ShareConsumer
from kshare.broker.cluster_server import ClusterServer
from kshare.broker.settings import Resource
from kshare.surroundings import monotonic
from tests.integration.consumer_storm.fault_book import FaultBook
from tests.simulation.attributes import compression_of
from tests.simulation.loop import SimulatedTime
from tests.simulation.pace import Pace, slow_hours
from tests.simulation.portals import portal_tasks
from tests.simulation.processes import Process
from tests.simulation.spark_driving import STEPS, Driving
from tests.simulation.spark_history import History, Place
from tests.simulation.spark_journals import JournalWatch, frames_in
from tests.simulation.spark_judging import Judgement
from tests.simulation.spark_processes import Driver, Executor
from tests.simulation.spark_seams import spark_seams
from tests.simulation.tap import ShareTap
from tests.simulation.world import Plan, Verdict, World, records_of

TOPIC, GROUP, GRAVE, JOURNAL = "orders", "shipping", "dlq.orders", "orders-journal"
_LETTERS_S = 20.0
_SLOW_CALM_S = 3600.0
_CALM_RECORDS = 2_000
_SOON_S, _LATER_S = 30.0, 10.0
_RESTARTED_AFTER_S = 0.4, 0.6, 1.0
"""A start takes about fifty requests, so more than four in a second would look like a busy loop."""
_SCHEDULED_EVERY_S = 0.5
"""A query that ends by itself isn't started at once again: each time, it sends about 65 requests."""
_LEFT_OPEN = "left open"
_STAYED, _EPOCHS = "still a member", "wrong epoch"
_SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.partition.max.record.locks": "100",
}
_REJECTED, _RELEASED = 17, 13
"""Which of so many rows the user rejects, and releases the first time."""


@dataclass(frozen=True, kw_only=True)
class SparkPlan(Plan):
    settle: str
    """sink, checkpoint or journal."""
    has_folder: bool
    """Whether the journal is in a folder. Otherwise it is in a topic."""
    has_company: bool
    """Whether another consumer of the group takes part."""
    by_row: bool
    """Whether the user rejects and releases single rows."""
    is_older: bool
    """Whether Spark doesn't pass its position."""
    drains: bool
    """Whether the query has the trigger AvailableNow."""
    lock_s: float
    locks: int
    """How many records of a partition may be locked."""
    limit: int
    max_records: int
    """Of a micro-batch."""
    max_wait_ms: int
    pauses: tuple[float, ...]
    """How long the steps between the calls of Spark take."""
    idle_s: float = 0.1
    """How long Spark waits until it asks again whether there is anything new."""
    calm_s: float = 120.0
    """How long it may take until nothing is left, once nothing is disturbed any more."""

    def smaller(self) -> Iterator[Self]:
        yield from super().smaller()
        for name in ("has_company", "by_row", "is_older", "drains", "has_folder"):
            if getattr(self, name):
                without: dict[str, Any] = {name: False}
                yield replace(self, **without)
        if self.settle != "sink":
            yield replace(self, settle="sink", has_folder=False)
        if self.pauses != (0.0,):
            yield replace(self, pauses=(0.0,))


@dataclass
class _Other(Process):
    """Another consumer of the group."""


@dataclass
class _User:
    """`User` of one start of the query."""

    world: SparkWorld
    process: Driver

    def is_over(self) -> bool:
        return self.world.is_over or self.process.is_stopping

    def at(self, step: str) -> None:
        self.process.note(self.process.name, step)
        if self.process.dies_at == step and not self.process.was_killed:
            self.world.kill(self.process)

    def new_executor(self) -> Executor:
        return self.world.start_executor()

    def is_sink_failing(self) -> bool:
        return self.world.take_failure("sink")

    def verdict_on(self, place: Place) -> str | None:
        kind = place[1] + place[0]
        if kind % _REJECTED == 3:
            return "reject"
        if kind % _RELEASED == 5 and place not in self.world.records.committed:
            return "release"
        return None


class SparkWorld(World):
    faults = (
        *("kill", "cut", "stall", "refuse", "node", "leader", "responses"),
        *("stop", "executor", "task", "sink", "move", "zombie"),
    )
    topic = TOPIC
    plan: SparkPlan

    @classmethod
    def drawn(cls, seed: int) -> SparkPlan:
        chance = Random(seed)
        settle = chance.choice(["sink", "sink", "checkpoint", "journal", "journal"])
        is_older = chance.random() < 0.25
        return SparkPlan(
            seed=seed,
            nodes=chance.choice([1, 1, 2, 3]),
            partitions=chance.choice([1, 2, 4]),
            lasts_s=chance.choice([5.0, 10.0, 20.0]),
            settle=settle,
            has_folder=settle == "journal" and chance.random() < 0.4,
            has_company=chance.random() < 0.25,
            by_row=settle == "sink" and chance.random() < 0.4,
            is_older=is_older,
            drains=not is_older and chance.random() < 0.2,
            lock_s=chance.choice([1.0, 1.5, 3.0]),
            locks=chance.choice([100, 2_000]),
            limit=chance.choice([5, 10, 10]),
            max_records=chance.choice([20, 100, 1_000]),
            max_wait_ms=chance.choice([0, 100, 500]),
            pauses=chance.choice([(0.0,), (0.0, 0.01, 0.1), (0.0, 0.0, 0.02, 0.3)]),
            rate=chance.choice([0.0, 0.03, 0.1]),
            delay_s=chance.choice([0.0005, 0.002, 0.05]),
            capacity=chance.choice([4_096, 65_536, 1 << 20]),
            faults=frozenset(fault for fault in cls.faults if chance.random() < 0.6),
        )

    @classmethod
    def slow(cls, seed: int) -> SparkPlan:
        chance = Random(f"{seed} slow")
        return replace(
            cls.drawn(seed),
            pace=Pace.slow(seed),
            lasts_s=slow_hours(seed),
            lock_s=chance.choice([15.0, 30.0]),
            idle_s=chance.choice([10.0, 60.0]),
            pauses=chance.choice([(0.0,), (0.0, 0.1, 5.0), (0.0, 0.0, 1.0, 60.0)]),
            calm_s=_SLOW_CALM_S,
        )

    def __init__(self, plan: SparkPlan, time: SimulatedTime) -> None:
        super().__init__(plan, time, _SETTINGS)
        topic = self.broker.cluster.create_topic(TOPIC, plan.partitions)
        self.broker.cluster.create_topic(GRAVE, 1, configs={"errors.deadletterqueue.group.enable": "true"})
        self.broker.configs.replace(
            Resource.GROUP,
            GROUP,
            {
                "share.auto.offset.reset": "earliest",
                "share.delivery.count.limit": str(plan.limit),
                "share.partition.max.record.locks": str(plan.locks),
                "share.record.lock.duration.ms": str(round(plan.lock_s * 1000)),
                **plan.pace.session_settings,
                "errors.deadletterqueue.topic.name": GRAVE,
            },
        )
        self.book = FaultBook(topic.id, Random(f"{plan.seed} faults"), plan.lock_s)
        self.book.done = self.done
        self.records = History()
        self._is_calm = False
        self._machine = 0
        self._failures = {"sink": 0, "task": 0}
        """How many of them will fail."""
        self._programs: TaskGroup
        self._disks = Path()
        self._journal: JournalWatch | None = None

    def new_tap(self) -> ShareTap:
        return _SparkTap(self)

    def set_rate(self, rate: float) -> None:
        self.book.rate = rate
        if not rate:
            self._failures = dict.fromkeys(self._failures, 0)

    def note(self, who: str, what: str, member: str = "") -> None:
        super().note(who, what.replace(str(self._disks), "DISKS") if self._disks.name else what, member)

    async def run(self) -> Verdict:
        self._disks = Path(tempfile.mkdtemp(prefix="kshare-simulation-"))
        try:
            if self.plan.settle == "journal":
                frames = frames_in(self._disks / "journal") if self.plan.has_folder else self._frames_in_topic
                self._journal = JournalWatch(frames, self.records)
            with spark_seams(Random(f"{self.plan.seed} disks")):
                return await super().run()
        finally:
            shutil.rmtree(self._disks)

    def look_at_journal(self) -> None:
        if self._journal is not None:
            self._journal.look(monotonic())

    def _frames_in_topic(self, after: int) -> Iterator[tuple[int, bytes]]:
        found = self.broker.cluster.topics.get(JOURNAL)
        for record in records_of(found.partitions[0]) if found else ():
            if record.offset > after:
                yield record.offset, bytes(record.value or b"")

    # --- programs

    def start(self, tasks: TaskGroup) -> None:
        self._programs = tasks
        self._start_driver()
        if self.plan.has_company:
            self._start_other()
        tasks.start_soon(self._write, self.new_process("writer"))

    def may_be_killed(self, process: Process) -> bool:
        return isinstance(process, Driver | _Other) and not process.ended.is_set()

    def kill(self, process: Process) -> None:
        process.kill()
        self.restart(self._programs, process)

    def restart(self, tasks: TaskGroup, killed: Process) -> None:
        if isinstance(killed, _Other):
            self._start_other()
        elif isinstance(killed, Driver) and not killed.is_zombie:
            self._start_driver()

    def take_failure(self, kind: str) -> bool:
        if self._failures[kind]:
            self._failures[kind] -= 1
            return True
        return False

    def _start_driver(self) -> Driver:
        disk = self._disks / f"machine-{self._machine}"
        disk.mkdir(exist_ok=True)
        name = f"driver-{len(self.processes)}"
        process: Driver = self.new_process(name, Driver)
        process.machine, process.disk = self._machine, disk
        self._programs.start_soon(self._live, process)
        return process

    def start_executor(self) -> Executor:
        process: Executor = self.new_process(f"executor-{len(self.processes)}", Executor)
        process.is_failing = lambda: self.take_failure("task")
        self._programs.start_soon(process.live)
        return process

    def _start_other(self) -> None:
        process: _Other = self.new_process(f"other-{len(self.processes)}", _Other)
        self._programs.start_soon(self._take_part, process)

    async def _live(self, process: Driver) -> None:
        """Start the query again and again, unless another driver has it."""
        process.enter()
        chance = Random(f"{self.plan.seed} {process.number}")
        try:
            with process.scope:
                async with anyio.create_task_group() as tasks:
                    portal_tasks.set(tasks)
                    while not self.is_over and not process.is_zombie:
                        process.is_stopping = False
                        try:
                            await self._driving(process, chance).run()
                        except Exception as error:
                            self.done[f"ended by {type(error).__name__}"] += 1
                            process.note(process.name, f"ended by {type(error).__name__}: {error}")
                        else:
                            self._note_what_is_left(process)
                        pause_s = chance.choice(_RESTARTED_AFTER_S) + self.plan.drains * _SCHEDULED_EVERY_S
                        await anyio.sleep(pause_s * self.plan.pace.look_every)
                    tasks.cancel_scope.cancel()
        finally:
            process.ended.set()

    def _driving(self, process: Driver, chance: Random) -> Driving:
        plan = self.plan
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "group": GROUP,
            "subscribe": TOPIC,
            "settle": plan.settle,
            "maxRecordsPerTrigger": str(_CALM_RECORDS if self._is_calm else plan.max_records),
            "maxWaitMs": str(plan.max_wait_ms),
            "minRecordsPerPartition": "20",
        }
        if plan.by_row:
            options |= {"settleRows": "true", "releaseDelayMs": "500"}
        if plan.has_folder:
            options["journalFolder"] = str(self._disks / "journal")
        elif plan.settle == "journal":
            options["journalTopic"] = JOURNAL
        return Driving(
            process,
            options,
            self.records,
            _User(self, process),
            chance,
            (0.0,) if self._is_calm else plan.pauses,
            is_older=plan.is_older,
            drains=plan.drains,
            idle_s=plan.idle_s,
        )

    def _note_what_is_left(self, process: Driver) -> None:
        """The query was stopped, without an error."""
        mine = [link for link in self.network.links if link.owner == process.name and not link.is_client_gone]
        if mine:
            self.records.note_broken(_LEFT_OPEN, f"{len(mine)} connections of {process.name}")
        locks = [path.name for path in process.disk.glob("*.lock")]
        others = [driver for driver in self._drivers() if driver is not process]
        if locks and not any(other.is_zombie or other.disk == process.disk for other in others):
            self.records.note_broken(_LEFT_OPEN, f"{locks} of {process.name}")

    def _drivers(self) -> Iterator[Driver]:
        return (
            process
            for process in self.processes
            if isinstance(process, Driver) and not process.ended.is_set()
        )

    async def _take_part(self, process: _Other) -> None:
        process.enter()
        chance, slowness = Random(f"{self.plan.seed} {process.number}"), self.plan.pace.look_every
        try:
            with process.scope:
                while not self.is_over:
                    with suppress(KshareError), anyio.move_on_after(chance.uniform(0.5, 5.0) * slowness):
                        await self._consume(process, chance)
                    await anyio.sleep(chance.uniform(0.0, 1.0) * slowness)
        finally:
            process.ended.set()

    async def _consume(self, process: Process, chance: Random) -> None:
        async with ShareConsumer(self.bootstrap, group=GROUP, topics=[TOPIC], max_records=20) as consumer:
            self.records.other_members.add(consumer.member_id)
            async for record in consumer:
                await anyio.sleep(chance.choice([0.0, 0.01]))
                if not process.was_killed:
                    self.records.others.add((record.partition, record.offset))

    async def _write(self, process: Process) -> None:
        process.enter()
        chance = Random(f"{self.plan.seed} writer")
        number = 0
        try:
            with process.scope:
                async with Producer(self.bootstrap, compression=compression_of(self.plan.seed)) as producer:
                    while not self.is_over:
                        partition = chance.randrange(self.plan.partitions)
                        for _ in range(chance.choice([1, 5, 20, 40])):
                            await producer.enqueue(TOPIC, b"%d" % number, partition=partition)
                            number += 1
                        await producer.flush()
                        await anyio.sleep(chance.uniform(0.05, 0.5) * self.plan.pace.slowness)
        finally:
            process.ended.set()

    # --- faults

    def _driver(self) -> Driver | None:
        drivers = [driver for driver in self._drivers() if not driver.is_zombie and not driver.was_killed]
        return self.chance.choice(drivers) if drivers else None

    async def _kill(self, server: ClusterServer, tasks: TaskGroup) -> None:
        driver = self._driver()
        if driver is not None and self.chance.random() < 0.7:
            driver.dies_at = self.chance.choice(STEPS)
        else:
            alive = [
                process
                for process in self.processes
                if self.may_be_killed(process) and not process.was_killed
            ]
            if alive:
                self.kill(self.chance.choice(alive))

    async def _stop(self, server: ClusterServer, tasks: TaskGroup) -> None:
        driver = self._driver()
        if driver is not None:
            driver.is_stopping = True

    async def _executor(self, server: ClusterServer, tasks: TaskGroup) -> None:
        driver = self._driver()
        if driver is not None and driver.executor is not None and not driver.executor.ended.is_set():
            driver.executor.kill()

    async def _task(self, server: ClusterServer, tasks: TaskGroup) -> None:
        self._failures["task"] += self.chance.choice([1, 2, 5])

    async def _sink(self, server: ClusterServer, tasks: TaskGroup) -> None:
        self._failures["sink"] += 1

    async def _move(self, server: ClusterServer, tasks: TaskGroup) -> None:
        """The driver is killed, and the query is started on another machine."""
        driver = self._driver()
        if driver is not None:
            self._begin_on_another_machine()
            self.kill(driver)

    async def _zombie(self, server: ClusterServer, tasks: TaskGroup) -> None:
        """The driver's connections stall, and the query is started on another machine; then the old one goes on.

        Only a journal fences the old one. Before the first micro-batch is logged, the two have nothing in common.
        """
        driver = self._driver()
        if driver is None or self.plan.settle != "journal" or not self.records.batches:
            return
        driver.is_zombie = True
        seconds = self.chance.choice([0.0, 0.5, 3.0, 10.0])
        for link in self.network.links:
            if link.owner == driver.name:
                link.stall(seconds, up=True, down=True)
        self._begin_on_another_machine()
        self._start_driver()

    def _begin_on_another_machine(self) -> None:
        self._machine += 1
        self._expect_again()

    def _expect_again(self) -> None:
        """What the user decided for single rows isn't known there."""
        if self.plan.by_row:
            for batch in self.records.batches[-1:]:
                batch.is_redelivered = True

    # --- the end

    async def _calm(self) -> set[Place]:
        """Let the query go on until nothing is left, or for `calm_s`. Returns what the group hasn't finished."""
        self.new_process("judge").enter()
        left: set[Place] | None = None
        began = anyio.current_time()
        self.is_over, self._is_calm = False, True
        async with anyio.create_task_group() as self._programs:
            driver = self._start_driver()
            with anyio.move_on_after(self.plan.calm_s):
                while left is None or left or self._written().keys() - self._processed():
                    look_every_s = 0.5 if anyio.current_time() < began + _SOON_S else _LATER_S
                    await self.sleep_while_behind(look_every_s, GROUP)
                    left = await self._left()
            self.is_over = True
            await driver.ended.wait()
            await self._note_members()
        return set(self._written()) if left is None else left

    async def _note_members(self) -> None:
        members = self.broker.share_groups.find(GROUP).members
        if members:
            self.records.note_broken(_STAYED, f"{sorted(members)} after the query was stopped")

    async def _left(self) -> set[Place] | None:
        """What the group hasn't finished. None if it hasn't read anything yet."""
        async with AdminClient(self.bootstrap) as admin:
            progress = await admin.share_group_progress(GROUP)
        behind = {row.partition: row.start_offset or 0 for row in progress if row.lag != 0}
        left = {place for place in self._written() if place[1] >= behind.get(place[0], inf)}
        return left if progress else None

    def _processed(self) -> set[Place]:
        """What is in a complete micro-batch, or was read by others, or is a dead letter."""
        return self.records.committed | self.records.others | self._dead()

    def _written(self) -> dict[Place, bytes]:
        return {
            (number, record.offset): bytes(record.value or b"")
            for number, partition in enumerate(self.broker.cluster.topics[TOPIC].partitions)
            for record in records_of(partition)
        }

    async def judged(self) -> Verdict:
        left = await self._calm()

        def judge() -> Judgement:
            judgement = Judgement(
                self.plan.settle,
                self._written(),
                self.records,
                self.book.acquired,
                self.book.acknowledged,
                self.plan.limit,
            )
            judgement.judge_ends(left, self._dead())
            return judgement

        judgement = judge()
        with anyio.move_on_after(_LETTERS_S):
            while judgement.problems["lost"]:
                await anyio.sleep(0.5)
                judgement = judge()
        return Verdict(judgement.problems | {_EPOCHS: self.book.wrong_epochs}, judgement.counts)

    def _dead(self) -> set[Place]:
        prefix, dead = "__dlq.errors.", set()
        for record in records_of(self.broker.cluster.topics[GRAVE].partitions[0]):
            headers = {name: bytes(value or b"").decode() for name, value in record.headers}
            dead.add((int(headers[f"{prefix}partition"]), int(headers[f"{prefix}offset"])))
        return dead


class _SparkTap(ShareTap):
    """Besides, looks at the journal before each request, so that it is known what was in it by then."""

    def __init__(self, world: SparkWorld) -> None:
        super().__init__(world.book, partial(world.note, "broker"))
        self._world = world

    def on_request_bytes(self, data: bytes) -> None:
        self._world.look_at_journal()
        super().on_request_bytes(data)
