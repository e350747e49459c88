"""A world of consumers: an embedded cluster, a producer, and consumers of one group, which are killed and cut off.

The programs and the judge are those of the storm of consumers (tests/integration/consumer_storm), which real brokers go
through as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from kshare import AdminClient, Producer, ShareConsumer
from kshare.broker.cluster_server import ClusterServer
from kshare.broker.settings import Resource
from kshare.surroundings import monotonic
from tests.integration.consumer_storm import async_program
from tests.integration.consumer_storm.diary import Entry, Event
from tests.integration.consumer_storm.fault_book import FaultBook
from tests.integration.consumer_storm.judging import Judgement, Place, Witness
from tests.integration.consumer_storm.notes import Notes, Orders, text_of
from tests.simulation.consumer_promises import Promises
from tests.simulation.loop import SimulatedTime
from tests.simulation.processes import Process
from tests.simulation.tap import ShareTap
from tests.simulation.world import Plan, Verdict, World, records_of

TOPIC, GROUP, GRAVE = "orders", "workers", "dlq.orders"
_LETTERS_S = 20.0
_STAYED, _STILL_LOCKED, _EPOCHS = "still a member", "still locked", "wrong epoch"
_MOSTLY_SMOOTH = 0.25
_LONG_LIVED = 0.1
"""The share of consumers that are used for longer than others, by so much:"""
_LONGER_S = 15.0
_SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
}


@dataclass(frozen=True, kw_only=True)
class ConsumerPlan(Plan):
    consumers: int
    lock_s: float
    limit: int = 5
    calm_s: float = 300.0
    """How long it may take until nothing is left, once nothing is disturbed any more."""

    @staticmethod
    def numbers() -> Iterable[str]:
        return ("nodes", "partitions", "consumers")


@dataclass(frozen=True)
class SimulatedOrders(Orders):
    world: Any = None

    @property
    def is_over(self) -> bool:
        return bool(self.world.is_over)


class SimulatedNotes(Notes):
    def __init__(self, orders: Orders, diary: Any, chance: Random) -> None:
        super().__init__(orders, diary, chance)
        if chance.random() < _LONG_LIVED:
            self.until += _LONGER_S

    def block(self, seconds: float) -> None:
        """Everybody stands still: they share a loop."""
        world = self.orders.world  # type: ignore[attr-defined]
        world.time.jump(seconds)
        world.stalled_at = monotonic()


@dataclass
class Member(Process):
    """A program with consumers. It implements `Diary`."""

    entries: list[Entry] = field(default_factory=list)

    def write(
        self, event: Event, member: str, place: tuple[int, int] = (-1, -1), delivery: int = 0, text: str = ""
    ) -> None:
        if not self.was_killed:
            self.entries.append(Entry(monotonic(), event, member, *place, delivery, text))
            self.note(self.name, f"{event} {place[0]}:{place[1]} {delivery} {text}", member)


class ConsumerWorld(World):
    faults: tuple[str, ...] = ("kill", "cut", "stall", "refuse", "corrupt", "node", "leader", "responses")
    topic = TOPIC
    watchers = ("calm",)
    smooth: frozenset[str] = frozenset({"kill", "corrupt"})
    """With these alone, nothing happens to requests, responses and connections of those who live."""
    plan: ConsumerPlan

    @classmethod
    def drawn(cls, seed: int) -> ConsumerPlan:
        chance = Random(seed)
        kinds = [*cls.faults]
        if chance.random() < _MOSTLY_SMOOTH:
            kinds = [one for one in kinds if one in cls.smooth]
        return ConsumerPlan(
            seed=seed,
            nodes=chance.choice([1, 1, 2, 3]),
            partitions=chance.choice([1, 2, 4, 8]),
            consumers=chance.choice([1, 2, 3]),
            lasts_s=chance.choice([5.0, 10.0, 20.0]),
            lock_s=chance.choice([1.0, 1.5, 3.0]),
            rate=chance.choice([0.0, 0.03, 0.1]),
            delay_s=chance.choice([0.0005, 0.002, 0.05]),
            capacity=chance.choice([4_096, 65_536, 1 << 20]),
            faults=frozenset(one for one in kinds if chance.random() < 0.6),
        )

    def __init__(self, plan: ConsumerPlan, time: SimulatedTime) -> None:
        super().__init__(plan, time, _SETTINGS)
        topic = self.broker.cluster.create_topic(TOPIC, plan.partitions)
        self.broker.cluster.create_topic(GRAVE, 1, configs={"errors.deadletterqueue.group.enable": "true"})
        self.broker.configs.replace(
            Resource.GROUP,
            GROUP,
            {
                "share.auto.offset.reset": "earliest",
                "share.record.lock.duration.ms": str(round(plan.lock_s * 1000)),
                "share.session.timeout.ms": "4000",
                "share.heartbeat.interval.ms": "1000",
                "errors.deadletterqueue.topic.name": GRAVE,
            },
        )
        self.book = FaultBook(topic.id, Random(f"{plan.seed} faults"), plan.lock_s)
        self.book.done = self.done
        self.stayed: list[str] = []
        """Closed consumers that are still members, and didn't say so."""
        self.still_locked: list[str] = []
        self.stalled_at = -inf
        """Until when everybody last stood still."""
        """What brokers hold for consumers that were closed, though nothing disturbed that."""

    def new_tap(self) -> ShareTap:
        return ShareTap(self.book, lambda what: self.note("broker", what))

    def set_rate(self, rate: float) -> None:
        self.book.rate = rate
        if not rate:
            self.book.is_corrupting = False

    # --- programs

    def start(self, tasks: TaskGroup) -> None:
        for _ in range(self.plan.consumers):
            self.start_consumer(tasks)
        tasks.start_soon(self._write, self.new_process("writer"))

    def may_be_killed(self, process: Process) -> bool:
        return process.name.startswith("consumer")

    def restart(self, tasks: TaskGroup, killed: Process) -> None:
        self.start_consumer(tasks)

    def start_consumer(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self._live, self.new_process(f"consumer-{len(self.processes)}", Member))

    def orders(self) -> SimulatedOrders:
        lock_s = self.plan.lock_s
        return SimulatedOrders(self.bootstrap, GROUP, TOPIC, "", lock_s, True, 0, "asyncio", None, self)

    async def _live(self, process: Member) -> None:
        process.enter()
        chance = Random(f"{self.plan.seed} {process.number}")
        orders = self.orders()
        try:
            with process.scope:
                while not self.is_over:
                    notes = SimulatedNotes(orders, process, chance)
                    said = len(process.lines)
                    try:
                        await async_program.live(notes)
                    except* Exception as group:
                        for error in group.exceptions:
                            notes.did(f"ended by {type(error).__name__}")
                        await anyio.sleep(0.1)
                    else:
                        if not process.was_killed:
                            self.note_whether_left(notes.member, process.lines[said:])
                    await self.note_left_behind(process)
        finally:
            process.ended.set()

    def note_whether_left(self, member: str, said: list[str]) -> None:
        if member in self.broker.share_groups.find(GROUP).members and not any("leav" in one for one in said):
            self.stayed.append(f"{member} closed at {monotonic():.3f}")
        # Those who stood still take locks for expired that brokers count from a later time.
        if self.plan.faults <= self.smooth and monotonic() > self.stalled_at + 2 * self.plan.lock_s:
            for leader in self.broker.shares.loaded():
                if any(run[2].is_held_by(member) for run in leader.shared.window.runs()):
                    where = f"{TOPIC}[{leader.partition.index}]"
                    self.still_locked.append(f"{where}: for {member} at {monotonic():.3f}")

    async def _write(self, process: Process) -> None:
        process.enter()
        chance = Random(f"{self.plan.seed} writer")
        number = 0
        try:
            with process.scope:
                async with Producer(self.bootstrap) as producer:
                    while not self.is_over:
                        partition = chance.randrange(self.plan.partitions)
                        for _ in range(chance.choice([1, 5, 20, 60])):
                            await producer.enqueue(TOPIC, b"%d" % number, partition=partition)
                            number += 1
                        await producer.flush()
                        await anyio.sleep(chance.uniform(0.02, 0.3))
        finally:
            process.ended.set()

    # --- faults

    async def _corrupt(self, server: ClusterServer, tasks: TaskGroup) -> None:
        self.book.is_corrupting = True
        await anyio.sleep(self.chance.uniform(0.0, 0.4))
        self.book.is_corrupting = False

    # --- the end

    async def _calm(self) -> set[Place]:
        """Read on until nothing is left, or for `calm_s`. Returns what is left."""
        process = self.new_process("calm", Member)
        process.enter()
        left: set[Place] = {(-1, -1)}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._accept_all, process)
            with anyio.move_on_after(self.plan.calm_s):
                while left:
                    await anyio.sleep(0.25)
                    left = await self._left()
            tasks.cancel_scope.cancel()
        return left

    async def _accept_all(self, process: Member) -> None:
        async with ShareConsumer(self.bootstrap, group=GROUP, topics=[TOPIC]) as consumer:
            async for record in consumer:
                place = (record.partition, record.offset)
                member = consumer.member_id
                process.write(Event.HANDED, member, place, record.delivery_count, text_of(record.value))
                process.write(Event.ENDED, member, place, record.delivery_count)

    async def _left(self) -> set[Place]:
        """The first offset of each partition that the group hasn't finished."""
        async with AdminClient(self.bootstrap) as admin:
            progress = await admin.share_group_progress(GROUP)
        left = {(one.partition, one.start_offset or 0) for one in progress if one.lag != 0}
        return left if progress else {(-1, -1)}

    async def judged(self) -> Verdict:
        left = await self._calm()
        written = {
            (number, record.offset): bytes(record.value or b"").decode()
            for number, partition in enumerate(self.broker.cluster.topics[TOPIC].partitions)
            for record in records_of(partition)
        }
        rest = {place for place in written for at in left if place[0] == at[0] and place[1] >= at[1]}
        witnesses = [
            Witness(one.entries, "".join(f"{line}\n" for line in one.lines), one.was_killed)
            for one in self.processes
            if isinstance(one, Member)
        ]

        def judge() -> Judgement:
            judgement = Judgement(
                written, witnesses, self.book.acquired, self.book.acknowledged, limit=self.plan.limit
            )
            judgement.judge_ends(rest, self._dead())
            return judgement

        judgement = judge()
        with anyio.move_on_after(_LETTERS_S):
            while judgement.problems["lost"]:
                await anyio.sleep(0.5)
                judgement = judge()
        promises = Promises(witnesses, self.book.acquired, self.book.acknowledged, self.plan.lock_s)
        broken = promises.broken(is_smooth=self.plan.faults <= self.smooth)
        others = {_STAYED: self.stayed, _STILL_LOCKED: self.still_locked, _EPOCHS: self.book.wrong_epochs}
        return Verdict({**judgement.problems, **others, **broken}, judgement.counts)

    def _dead(self) -> dict[Place, str]:
        prefix, dead = "__dlq.errors.", {}
        for record in records_of(self.broker.cluster.topics[GRAVE].partitions[0]):
            headers = {name: bytes(value or b"").decode() for name, value in record.headers}
            place = int(headers[f"{prefix}partition"]), int(headers[f"{prefix}offset"])
            dead[place] = headers[f"{prefix}message"]
        return dead
