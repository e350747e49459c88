"""A world of consumers: an embedded cluster, a producer, and consumers of one group, which are killed and cut off.

The programs and the judge are those of the storm of consumers (tests/integration/consumer_storm), which real brokers go
through as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from kshare import AdminClient, KshareError, Producer, ShareConsumer
from kshare.broker.cluster_server import ClusterServer
from kshare.broker.settings import Resource
from kshare.client.record import ShareRecord
from kshare.surroundings import monotonic, wall_time
from tests.integration.consumer_storm import async_program
from tests.integration.consumer_storm.diary import Entry, Event
from tests.integration.consumer_storm.fault_book import FaultBook
from tests.integration.consumer_storm.judging import Judgement, Place, Witness
from tests.integration.consumer_storm.notes import Notes, Orders, text_of
from tests.simulation.attributes import Attributes, compression_of, different, headers_of
from tests.simulation.consumer_promises import Promises
from tests.simulation.ledger import Ledger
from tests.simulation.loop import START_S, SimulatedTime
from tests.simulation.pace import Pace, slow_hours
from tests.simulation.processes import Process
from tests.simulation.tap import ShareTap
from tests.simulation.world import Plan, Verdict, World, records_of

TOPIC, GROUP, GRAVE = "orders", "workers", "dlq.orders"
_LETTERS_S = 20.0
_SLOW_CALM_S = 3600.0
_STAYED, _STILL_LOCKED, _EPOCHS = "still a member", "still locked", "wrong epoch"
_STUCK, _WRONG = "stands still", "wrong attributes"
_MOSTLY_SMOOTH = 0.25
_LONG_LIVED = 0.1
"""The share of consumers that are used for longer than others, by so much:"""
_LONGER_S = 15.0
_USED = 0.95
"""The share of a lock after which clients may take it for expired: sending takes some time, too."""
_PAUSED_S = 0.2
_RESIDENT_RECORDS = 20
"""So that others get some."""
_KEYS = 30
_SLOW_LIVES_S = (60.0, 1800.0, 36_000.0)
"""For how long consumers are used in slow simulations."""
_SLOW_BODIES_S = (20.0, 90.0, 280.0, 900.0)
"""How long slow bodies take there: locks are renewed for 300 seconds."""
_LONGEST_KEPT_S = 1000.0
"""After that, nothing that a program still has, or that was begun while everything was disturbed, is in the way."""
_LAST_S = 100.0
_SOON_S, _MOSTLY_S, _LATER_S = 0.25, 60.0, 5.0
"""How often what is left is counted, until when that is mostly nothing, and how often afterwards."""
_FRESH_S = 900.0
"""How long it may take until a program gets a record, if nothing is disturbed."""
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
        return bool(self.world.is_over or self.world.is_paused)


class _Book(FaultBook):
    """Knows partitions by the numbers that the ledger gives them."""

    def __init__(self, ledger: Ledger, chance: Random, lock_s: float) -> None:
        super().__init__(b"", chance, lock_s)
        self._ledger = ledger

    def number(self, topic_id: bytes, index: int) -> int | None:
        return self._ledger.number(topic_id, index)


class SimulatedNotes(Notes):
    def __init__(self, orders: Orders, diary: Any, chance: Random) -> None:
        super().__init__(orders, diary, chance)
        self._program: Member = diary
        world = orders.world  # type: ignore[attr-defined]
        self._is_slow = world.plan.pace.is_slow
        if self._is_slow:
            self.slowness = world.plan.pace.slowness
            self.until = min(self.until + chance.choice(_SLOW_LIVES_S), world.ends_by)
        if chance.random() < _LONG_LIVED:
            self.until += _LONGER_S

    def of(self, event: Event, record: ShareRecord, text: str = "") -> None:
        self._program.values[len(self._program.entries)] = text_of(record.value)
        if event is Event.HANDED:
            self.orders.world.compare(record)  # type: ignore[attr-defined]
        super().of(event, record, text)

    def slow_body_s(self) -> float:
        if not self._is_slow:
            return super().slow_body_s()
        return 0.0 if self.orders.world.is_calm else self.chance.choice(_SLOW_BODIES_S)  # type: ignore[attr-defined]

    def block(self, seconds: float) -> None:
        """Everybody stands still: they share a loop."""
        world = self.orders.world  # type: ignore[attr-defined]
        world.time.jump(seconds)
        world.stalled_at = monotonic()


@dataclass(eq=False)
class Member(Process):
    """A program with consumers. It implements `Diary`."""

    entries: list[Entry] = field(default_factory=list)
    values: dict[int, str] = field(default_factory=dict)
    """Those of the records that entries are about, by the index of the entry."""

    def write(
        self, event: Event, member: str, place: tuple[int, int] = (-1, -1), delivery: int = 0, text: str = ""
    ) -> None:
        if not self.was_killed:
            self.entries.append(Entry(monotonic(), event, member, *place, delivery, text))
            self.note(self.name, _told(event, place, delivery, text), member)


def _told(event: Event, place: Place, delivery: int, text: str) -> str:
    """For those who read a replay."""
    if place[0] < 0:
        return text if event is Event.DID else f"{event} {text}".rstrip()
    more = {Event.CONFIRMED: f"-{text}", Event.REFUSED: f"-{text}", Event.HANDED: f", value {text}"}.get(
        event, text
    )
    return f"{event} {place[0]}:{place[1]}{f', delivery {delivery}' if delivery else ''}{more}"


class ConsumerWorld(World):
    faults: tuple[str, ...] = ("kill", "cut", "stall", "refuse", "corrupt", "node", "leader", "responses")
    changes: tuple[str, ...] = (
        *("suspend", "crash", "deletion", "retention", "compaction"),
        *("recreation", "partitions", "settings", "reset"),
    )
    topic, group = TOPIC, GROUP
    watchers = ("calm", "judge", "operator")
    smooth: frozenset[str] = frozenset({"kill", "corrupt"})
    """With these alone, nothing happens to requests, responses and connections of those who live."""
    plan: ConsumerPlan

    @classmethod
    def drawn(cls, seed: int) -> ConsumerPlan:
        chance = Random(seed)
        kinds = [*cls.faults]
        if chance.random() < _MOSTLY_SMOOTH:
            kinds = [kind for kind in kinds if kind in cls.smooth]
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
            faults=frozenset(kind for kind in kinds if chance.random() < 0.6),
        )

    @classmethod
    def slow(cls, seed: int) -> ConsumerPlan:
        chance = Random(f"{seed} slow")
        return replace(
            cls.drawn(seed),
            pace=Pace.slow(seed),
            lasts_s=slow_hours(seed),
            lock_s=chance.choice([15.0, 30.0, 60.0]),
            calm_s=_SLOW_CALM_S,
        )

    def __init__(self, plan: ConsumerPlan, time: SimulatedTime) -> None:
        super().__init__(plan, time, _SETTINGS)
        self.broker.cluster.create_topic(TOPIC, plan.partitions)
        self.broker.cluster.create_topic(GRAVE, 1, configs={"errors.deadletterqueue.group.enable": "true"})
        self.broker.configs.replace(
            Resource.GROUP,
            GROUP,
            {
                "share.auto.offset.reset": "earliest",
                "share.record.lock.duration.ms": str(round(plan.lock_s * 1000)),
                **plan.pace.session_settings,
                "errors.deadletterqueue.topic.name": GRAVE,
            },
        )
        self.book = _Book(self.ledger, Random(f"{plan.seed} faults"), plan.lock_s)
        self.book.done = self.done
        self.is_calm = False
        """Nothing is disturbed any more, and bodies aren't slow."""
        self._attributes: dict[bytes, Attributes] = {}
        """Of all records that were written, by value."""
        self._wrong: list[str] = []
        """Keys, headers and timestamps that consumers got, and nobody had written."""
        self.stuck: list[str] = []
        """Records that no program got for long, though nothing was disturbed."""
        self._written = 0
        """How many records; the next one has this number."""
        self.stayed: list[str] = []
        """Closed consumers that are still members, and didn't say so."""
        self.still_locked: list[str] = []
        """What brokers hold for consumers that were closed, though nothing disturbed that."""
        self.stalled_at = -inf
        """Until when everybody last stood still."""
        self.is_paused = False
        """Nobody reads at the moment."""
        self._resident: Member | None = None
        """A program that goes on from the start to the end, and has to follow all changes."""
        self._limits = [(-inf, plan.lock_s, plan.limit)]
        """The duration of locks and the limit of deliveries, and since when."""
        self.broker.configs.changed.listen(self._note_limits)

    def _note_limits(self) -> None:
        configs = self.broker.configs
        lock_s = configs.group_number(GROUP, "share.record.lock.duration.ms") / 1000
        limit = configs.group_number(GROUP, "share.delivery.count.limit")
        if (lock_s, limit) != self._limits[-1][1:]:
            self._limits.append((self.time.now(), lock_s, limit))

    def _lock_s(self, at: float) -> float:
        """For how long brokers lock what is acquired then."""
        return next(lock_s for since, lock_s, _ in reversed(self._limits) if since <= at)

    @asynccontextmanager
    async def emptied_group(self) -> AsyncIterator[None]:
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False

    @property
    def ends_by(self) -> float:
        """When a slow simulation tells its programs to end, at the latest."""
        return START_S + self.plan.lasts_s + _LONGEST_KEPT_S + _FRESH_S + _LAST_S

    def new_tap(self) -> ShareTap:
        return ShareTap(self.book, partial(self.note, "broker"))

    def set_rate(self, rate: float) -> None:
        self.book.rate = rate
        if not rate:
            self.book.is_corrupting = False

    # --- programs

    def start(self, tasks: TaskGroup) -> None:
        for _ in range(self.plan.consumers):
            self.start_consumer(tasks)
        tasks.start_soon(self._write, self.new_process("writer"))
        changes = self.plan.changes
        if changes and "reset" not in changes and Random(f"{self.plan.seed} resident").random() < 0.5:
            self._resident = self.new_process("calm", Member)
            self._resident.ended.set()
            self.network.tasks.start_soon(self._reside, self._resident)

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
                    if self.is_paused:
                        await anyio.sleep(_PAUSED_S)
                        continue
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
        groups = self.broker.share_groups
        is_member = groups.has(GROUP) and member in groups.find(GROUP).members
        if is_member and not any("leav" in text for text in said):
            self.stayed.append(f"{member} closed at {monotonic():.3f}")
        # Those who stood still take locks for expired that brokers count from a later time.
        if self._is_smooth and monotonic() > self.stalled_at + 2 * self.plan.lock_s:
            for leader in self.broker.shares.loaded():
                index = leader.partition.index
                held = [run[:2] for run in leader.shared.window.runs() if run[2].is_held_by(member)]
                if any(not self._has_run_out(member, index, *offsets) for offsets in held):
                    self.still_locked.append(f"{TOPIC}[{index}]: for {member} at {monotonic():.3f}")

    def _has_run_out(self, member: str, partition: int, first: int, last: int) -> bool:
        """Whether clients take this lock for expired, which brokers still hold.

        Clients count it from when they asked for it, a fetch may then wait for records, and they take some off its end.
        What they have given up they don't release; brokers do so soon, or when the session ends that the partition is
        in. A member that has lost the partition meanwhile has no such session.
        """
        asked_at = self.book.locked_from(member, partition, first, last)
        until = asked_at - self.plan.delay_s + self._lock_s(asked_at) * _USED
        return monotonic() >= until

    @property
    def _is_smooth(self) -> bool:
        return self.plan.faults <= self.smooth and not self.plan.changes

    async def _write(self, process: Process) -> None:
        process.enter()
        chance = Random(f"{self.plan.seed} writer")
        try:
            with process.scope:
                while not self.is_over:
                    try:
                        async with Producer(
                            self.bootstrap, compression=compression_of(self.plan.seed)
                        ) as producer:
                            await self._write_with(producer, chance)
                    except KshareError as error:
                        if not self.plan.changes:
                            raise
                        self.note(process.name, f"{type(error).__name__}: {error}")
        finally:
            process.ended.set()

    async def _write_with(self, producer: Producer, chance: Random) -> None:
        while not self.is_over:
            partition = chance.randrange(self.partitions)
            for _ in range(chance.choice([1, 5, 20, 60])):
                await self._enqueue(producer, partition)
            await producer.flush()
            await anyio.sleep(chance.uniform(0.02, 0.3) * self.plan.pace.slowness)

    async def _enqueue(self, producer: Producer, partition: int) -> None:
        number, value = self._written, b"%d" % self._written
        has_key = "compaction" in self.plan.changes or number % 3 == 0
        key = b"%d" % (number % _KEYS) if has_key else None
        self._written += 1
        attributes = self.attributes_of(value, number, key)
        await producer.enqueue(TOPIC, value, partition=partition, **attributes._asdict())

    def attributes_of(self, value: bytes, number: int, key: bytes | None = None) -> Attributes:
        """What else is to be written with this value, now."""
        self._attributes[value] = Attributes(key, headers_of(number), int(wall_time() * 1000))
        return self._attributes[value]

    def compare(self, record: ShareRecord) -> None:
        """With what was written."""
        wanted = self._attributes.get(bytes(record.value or b""))
        if wanted is not None:
            place = f"{record.partition}:{record.offset}"
            self._wrong += (f"{place}: {text}" for text in different(wanted, record))

    # --- faults

    async def _corrupt(self, server: ClusterServer, tasks: TaskGroup) -> None:
        self.book.is_corrupting = True
        seconds = self.chance.uniform(0.0, 0.4) * self.plan.pace.stretch(self.chance)
        self.note("world", f"record batches arrive damaged for {seconds:.3f} s")
        await anyio.sleep(seconds)
        self.book.is_corrupting = False

    # --- the end

    async def _go_on(self, tasks: TaskGroup) -> None:
        """Programs that have run for hours get new records, of each partition."""
        self.is_calm = True
        await anyio.sleep(_LONGEST_KEPT_S)
        self._begin_judging()
        partitions = self.broker.cluster.topics[TOPIC].partitions
        async with Producer(self.bootstrap, compression=compression_of(self.plan.seed)) as producer:
            for partition in partitions:
                await self._enqueue(producer, partition.index)
        until = {(partition.index, partition.log.end_offset - 1) for partition in partitions}
        with anyio.move_on_after(_FRESH_S):
            while until:
                await anyio.sleep(self.plan.pace.look_every)
                until -= self._handed_out()
        self.stuck += [f"{place}: nobody got it by {monotonic():.3f}" for place in sorted(until)]

    def _handed_out(self) -> set[Place]:
        """Places that programs got, whatever they were."""
        members = (process for process in self.processes if isinstance(process, Member))
        events = (Event.HANDED, Event.UNREADABLE)
        return {(e.partition, e.offset) for member in members for e in member.entries if e.event in events}

    def _begin_judging(self) -> None:
        judge = self.new_process("judge")
        judge.ended.set()
        judge.enter()

    async def _calm(self) -> set[Place]:
        """Read on until nothing is left, or for `calm_s`. Returns what is left."""
        process = self._resident or self.new_process("calm", Member)
        process.enter()
        left: set[Place] = {(-1, -1)}
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            if self._resident is None:
                tasks.start_soon(partial(self._accept_all, process, tasks=tasks))
            with anyio.move_on_after(self.plan.calm_s):
                while left:
                    look_every_s = _SOON_S if anyio.current_time() < began + _MOSTLY_S else _LATER_S
                    await self.sleep_while_behind(look_every_s * self.plan.pace.look_every, GROUP)
                    left = await self._left()
            tasks.cancel_scope.cancel()
        process.scope.cancel()
        return left

    async def _reside(self, process: Member) -> None:
        process.enter()
        with process.scope:
            while True:
                try:
                    await self._accept_all(process, _RESIDENT_RECORDS)
                except KshareError as error:
                    process.log(f"ended by {type(error).__name__}: {error}")
                    await anyio.sleep(0.1)

    async def _accept_all(
        self, process: Member, max_records: int = 20_000, tasks: TaskGroup | None = None
    ) -> None:
        """`tasks`: one of them lets it pause and read another topic for a moment. It has to go on afterwards."""
        async with ShareConsumer(
            self.bootstrap, group=GROUP, topics=[TOPIC], max_records=max_records
        ) as consumer:
            if tasks is not None:
                tasks.start_soon(self._pause_and_go_on, consumer)
            async for record in consumer:
                place = (record.partition, record.offset)
                member = consumer.member_id
                for index in range(2):
                    process.values[len(process.entries) + index] = text_of(record.value)
                process.write(Event.HANDED, member, place, record.delivery_count, text_of(record.value))
                process.write(Event.ENDED, member, place, record.delivery_count)

    async def _pause_and_go_on(self, consumer: ShareConsumer) -> None:
        """Before it has got anything, mostly: nothing may be left because of that."""
        chance = Random(f"{self.plan.seed} pauses")
        consumer.pause()
        await anyio.sleep(chance.choice([0.0, 0.1, 2.0]))
        consumer.resume()
        await anyio.sleep(chance.choice([0.0, 0.01, 0.5]))
        consumer.subscribe([f"{TOPIC}-none"])
        await anyio.sleep(chance.choice([0.0, 0.1, 2.0]))
        consumer.subscribe([TOPIC])

    async def _left(self) -> set[Place]:
        """The first offset of each partition that the group hasn't finished."""
        async with AdminClient(self.bootstrap) as admin:
            progress = await admin.share_group_progress(GROUP)
        done = self._read_to_the_end() if "compaction" in self.plan.changes else set()
        left = {
            (row.partition, row.start_offset or 0)
            for row in progress
            if row.lag != 0 and row.partition not in done
        }
        return left if progress else {(-1, -1)}

    def _read_to_the_end(self) -> set[int]:
        """Partitions of which the group has read everything, as their leaders know.

        That released records are skipped because compaction has removed them isn't stored.
        """
        return {
            leader.partition.index
            for leader in self.broker.shares.loaded()
            if leader.shared.start_offset >= leader.partition.log.end_offset
        }

    async def judged(self) -> Verdict:
        left = await self._calm()
        ledger, written = self.ledger, self.ledger.written()
        latest = {(ledger.numbers(index)[-1], offset) for index, offset in left if index >= 0}
        rest = {
            place
            for place in written
            for at in latest
            if place[0] == at[0] and place[1] >= at[1] and ledger.gone(place) == inf
        }
        acquired = ledger.acquired(self.book.acquired)
        acknowledged = ledger.acknowledged(self.book.acknowledged)
        witnesses = [
            Witness(
                ledger.entries(process.entries, process.values, written, acknowledged),
                ledger.log(process.lines),
                process.was_killed,
            )
            for process in self.processes
            if isinstance(process, Member)
        ]
        limit = min(limit for _, _, limit in self._limits)

        def judge() -> Judgement:
            judgement = Judgement(
                written,
                witnesses,
                acquired,
                acknowledged,
                limit=limit,
                gone=ledger.gone,
                is_undone=ledger.is_undone,
            )
            judgement.judge_ends(rest, self._dead())
            return judgement

        judgement = judge()
        with anyio.move_on_after(_LETTERS_S):
            while judgement.problems["lost"]:
                await anyio.sleep(0.5)
                judgement = judge()
        promises = Promises(witnesses, acquired, acknowledged, self._lock_s)
        broken = promises.broken(
            is_smooth=self._is_smooth, is_uninterrupted="interrupt" not in self.plan.faults
        )
        others = {
            _STAYED: self.stayed,
            _STILL_LOCKED: self.still_locked,
            _EPOCHS: self.book.wrong_epochs,
            _STUCK: self.stuck,
            _WRONG: self._wrong,
        }
        return Verdict({**judgement.problems, **others, **broken}, judgement.counts)

    def _dead(self) -> dict[Place, str]:
        prefix, dead = "__dlq.errors.", {}
        for record in records_of(self.broker.cluster.topics[GRAVE].partitions[0]):
            headers = {name: bytes(value or b"").decode() for name, value in record.headers}
            for number in self.ledger.numbers(int(headers[f"{prefix}partition"])):
                dead[number, int(headers[f"{prefix}offset"])] = headers[f"{prefix}message"]
        return dead
