"""One simulation: an embedded cluster, a producer, and consumers of one group, which are killed and cut off.

The programs and the judge are those of the storm of consumers (tests/integration/consumer_storm), which real brokers go
through as well. Here, everything runs in one thread, and one seed decides what happens when.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from time import process_time
from typing import Any

import anyio
from anyio.abc import TaskGroup

import kshare.fast.coarse_clock as coarse_clock
from kshare import AdminClient, Producer, ShareConsumer
from kshare.broker import broker as embedded
from kshare.broker import cluster_server
from kshare.broker.cluster_server import ClusterServer
from kshare.broker.settings import Resource
from kshare.net.network import network
from kshare.surroundings import Surroundings, monotonic, surroundings
from tests.integration.consumer_storm import async_program
from tests.integration.consumer_storm.diary import Entry, Event
from tests.integration.consumer_storm.fault_book import FaultBook
from tests.integration.consumer_storm.judging import Judgement, Place, Witness
from tests.integration.consumer_storm.notes import Notes, Orders, text_of
from tests.simulation.loop import START_S, SimulatedTime
from tests.simulation.network import Conditions, ProcessNetwork, SimulatedNetwork
from tests.simulation.tap import Tap

TOPIC, GROUP, GRAVE = "orders", "workers", "dlq.orders"
_EPOCH_S = 1_750_000_000.0
_HOST = "10.0.0.1"
_LETTERS_S = 20.0
_TICK_S = 1e-9


@dataclass(frozen=True)
class Plan:
    """What a seed has drawn."""

    seed: int
    nodes: int
    partitions: int
    consumers: int
    lasts_s: float
    lock_s: float
    rate: float
    """The share of responses that something happens to."""
    delay_s: float
    capacity: int
    faults: frozenset[str]
    limit: int = 5
    calm_s: float = 300.0
    """How long it may take until nothing is left, once nothing is disturbed any more."""


KINDS = ("kill", "cut", "stall", "refuse", "corrupt", "node", "leader", "responses")


def drawn(seed: int) -> Plan:
    chance = Random(seed)
    return Plan(
        seed,
        nodes=chance.choice([1, 1, 2, 3]),
        partitions=chance.choice([1, 2, 4, 8]),
        consumers=chance.choice([1, 2, 3]),
        lasts_s=chance.choice([5.0, 10.0, 20.0]),
        lock_s=chance.choice([1.0, 1.5, 3.0]),
        rate=chance.choice([0.0, 0.03, 0.1]),
        delay_s=chance.choice([0.0005, 0.002, 0.05]),
        capacity=chance.choice([4_096, 65_536, 1 << 20]),
        faults=frozenset(one for one in KINDS if chance.random() < 0.6),
    )


class SimulatedSurroundings(Surroundings):
    def __init__(self, time: SimulatedTime, chance: Random) -> None:
        self._time = time
        self._chance = chance
        self._latest = 0.0
        self.wall_time = lambda: _EPOCH_S + time.now() - START_S
        self.monotonic = self._in_order
        self.suspended_s = lambda: 0.0

    def _in_order(self) -> float:
        """A little later each time, so that diaries tell what came first."""
        self._latest = max(self._time.now(), self._latest + _TICK_S)
        return self._latest

    def random(self) -> Random:
        return Random(self._chance.getrandbits(64))

    def random_bytes(self, count: int) -> bytes:
        return self._chance.randbytes(count)


@dataclass(frozen=True)
class _Orders(Orders):
    process: Any = None

    @property
    def is_over(self) -> bool:
        return bool(self.process.is_over)


class _Notes(Notes):
    def block(self, seconds: float) -> None:
        """Everybody stands still: they share a loop."""
        self.orders.process.world.time.jump(seconds)  # type: ignore[attr-defined]


@dataclass
class Process:
    """A program with its own connections, diary and log. It implements `Diary`."""

    world: World
    name: str
    number: int
    network: ProcessNetwork
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    entries: list[Entry] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    was_killed: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_over(self) -> bool:
        return self.world.is_over

    def write(
        self, event: Event, member: str, place: tuple[int, int] = (-1, -1), delivery: int = 0, text: str = ""
    ) -> None:
        if not self.was_killed:
            self.entries.append(Entry(monotonic(), event, member, *place, delivery, text))
            self.world.note(self.name, f"{event} {place[0]}:{place[1]} {delivery} {text}", member)

    def log(self, line: str) -> None:
        if not self.was_killed:
            self.lines.append(line)
            self.world.note(self.name, line)

    def kill(self) -> None:
        """It can't tell anybody anything any more."""
        self.world.note(self.name, "killed")
        self.was_killed = True
        self.network.kill()
        self.scope.cancel()


_process: ContextVar[Process | None] = ContextVar("process", default=None)


class _LogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        process = _process.get()
        if process is not None:
            process.log(f"{record.levelname} {record.getMessage()}")


@dataclass
class Outcome:
    plan: Plan
    judgement: Judgement
    history: list[str]
    simulated_s: float
    cpu_s: float
    done: Counter[str]

    @property
    def problems(self) -> dict[str, list[str]]:
        return {kind: found for kind, found in self.judgement.problems.items() if found}


class World:
    def __init__(self, plan: Plan, time: SimulatedTime) -> None:
        self.plan = plan
        self.time = time
        self.chance = Random(f"{plan.seed} world")
        self.is_over = False
        self.history: list[str] = []
        self.done: Counter[str] = Counter()
        self._processes: list[Process] = []
        self.broker = embedded.Broker(
            nodes=plan.nodes,
            settings={
                "group.share.assignment.interval.ms": "0",
                "group.share.min.heartbeat.interval.ms": "500",
                "group.share.min.record.lock.duration.ms": "1000",
                "group.share.min.session.timeout.ms": "1000",
            },
        )
        for node in self.broker.cluster.nodes.values():
            node.host = _HOST
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

    def note(self, who: str, what: str, member: str = "") -> None:
        self.history.append(f"{monotonic():.6f} {who} {what} {member}".rstrip())

    async def run(self) -> Judgement:
        plan = self.plan
        async with anyio.create_task_group() as carrying:
            conditions = Conditions((0.0, plan.delay_s), plan.capacity)
            self._network = SimulatedNetwork(
                Random(f"{plan.seed} network"), conditions, carrying, self._new_tap
            )
            async with cluster_server.run(self.broker, listen=self._network.listen) as server:
                judgement = await self._run(server)
            carrying.cancel_scope.cancel()
        return judgement

    async def _run(self, server: ClusterServer) -> Judgement:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            for _ in range(self.plan.consumers):
                self._start(tasks)
            writer = self._new_process("writer")
            tasks.start_soon(self._write, writer)
            await self._disturb(server, tasks)
            self.is_over = True
            self.note("world", "calm")
            self.book.rate, self.book.is_corrupting = 0.0, False
            self._network.refuses_until = 0.0
            for process in self._processes:
                with anyio.fail_after(60.0):
                    await process.ended.wait()
        left = await self._calm()
        return await self._judged(left)

    def _new_tap(self) -> Tap:
        return Tap(self.book, lambda what: self.note("broker", what))

    # --- processes

    def _new_process(self, name: str) -> Process:
        process = Process(self, name, len(self._processes), ProcessNetwork(self._network, name))
        self._processes.append(process)
        return process

    def _start(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self._live, self._new_process(f"consumer-{len(self._processes)}"))

    async def _live(self, process: Process) -> None:
        plan = self.plan
        self._enter(process)
        chance = Random(f"{plan.seed} {process.number}")
        orders = _Orders(self._bootstrap, GROUP, TOPIC, "", plan.lock_s, True, 0, "asyncio", None, process)
        try:
            with process.scope:
                while not process.is_over:
                    notes = _Notes(orders, process, chance)  # type: ignore[arg-type]
                    try:
                        await async_program.live(notes)
                    except* Exception as group:
                        for error in group.exceptions:
                            notes.did(f"ended by {type(error).__name__}")
                        await anyio.sleep(0.1)
        finally:
            process.ended.set()

    def _enter(self, process: Process) -> None:
        network.set(process.network)
        _process.set(process)

    @property
    def _bootstrap(self) -> str:
        return ",".join(f"{node.host}:{node.port}" for node in self.broker.cluster.nodes.values())

    async def _write(self, process: Process) -> None:
        self._enter(process)
        chance = Random(f"{self.plan.seed} writer")
        number = 0
        try:
            with process.scope:
                async with Producer(self._bootstrap) as producer:
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

    async def _disturb(self, server: ClusterServer, tasks: TaskGroup) -> None:
        plan, chance = self.plan, self.chance
        await anyio.sleep(0.5)
        if "responses" in plan.faults:
            self.book.rate = plan.rate
        deeds = sorted(plan.faults - {"responses"})
        until = anyio.current_time() + plan.lasts_s
        while anyio.current_time() < until:
            await anyio.sleep(chance.expovariate(2.0))
            if deeds:
                deed = chance.choice(deeds)
                self.done[deed] += 1
                self.note("world", deed)
                await getattr(self, f"_{deed}")(server, tasks)
        for node in self.broker.cluster.nodes.values():
            if not node.is_up:
                await server.start_node(node)

    async def _kill(self, server: ClusterServer, tasks: TaskGroup) -> None:
        alive = [one for one in self._processes if one.name.startswith("consumer") and not one.was_killed]
        self.chance.choice(alive).kill()
        self._start(tasks)

    async def _cut(self, server: ClusterServer, tasks: TaskGroup) -> None:
        links = self._network.links
        if links:
            link = self.chance.choice(links)
            self.note(link.owner, "a connection is cut")
            link.cut()

    async def _stall(self, server: ClusterServer, tasks: TaskGroup) -> None:
        chance, links = self.chance, self._network.links
        if links:
            link = chance.choice(links)
            up, down = chance.choice([(True, True), (True, False), (False, True)])
            seconds = chance.choice([0.2, 1.0, 4.0, 30.0])
            self.note(link.owner, f"a connection stalls for {seconds} s")
            link.stall(seconds, up=up, down=down)

    async def _refuse(self, server: ClusterServer, tasks: TaskGroup) -> None:
        self._network.refuses_until = anyio.current_time() + self.chance.uniform(0.1, 2.0)

    async def _corrupt(self, server: ClusterServer, tasks: TaskGroup) -> None:
        self.book.is_corrupting = True
        await anyio.sleep(self.chance.uniform(0.0, 0.4))
        self.book.is_corrupting = False

    async def _node(self, server: ClusterServer, tasks: TaskGroup) -> None:
        nodes = [*self.broker.cluster.nodes.values()]
        down = [one for one in nodes if not one.is_up]
        if down:
            await server.start_node(down[0])
        elif len(nodes) > 1:
            node = self.chance.choice(nodes)
            self.note(f"node-{node.id}", "stops")
            await server.stop_node(node)

    async def _leader(self, server: ClusterServer, tasks: TaskGroup) -> None:
        cluster = self.broker.cluster
        up = [one.id for one in cluster.nodes.values() if one.is_up]
        partition = self.chance.choice(cluster.topics[TOPIC].partitions)
        cluster.move_leader(partition, self.chance.choice(up))

    # --- the end

    async def _calm(self) -> set[Place]:
        """Read on until nothing is left, or for `calm_s`. Returns what is left."""
        process = self._new_process("calm")
        self._enter(process)
        left: set[Place] = {(-1, -1)}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._accept_all, process)
            with anyio.move_on_after(self.plan.calm_s):
                while left:
                    await anyio.sleep(0.25)
                    left = await self._left()
            tasks.cancel_scope.cancel()
        return left

    async def _accept_all(self, process: Process) -> None:
        async with ShareConsumer(self._bootstrap, group=GROUP, topics=[TOPIC]) as consumer:
            async for record in consumer:
                place = (record.partition, record.offset)
                member = consumer.member_id
                process.write(Event.HANDED, member, place, record.delivery_count, text_of(record.value))
                process.write(Event.ENDED, member, place, record.delivery_count)

    async def _left(self) -> set[Place]:
        """The first offset of each partition that the group hasn't finished."""
        async with AdminClient(self._bootstrap) as admin:
            progress = await admin.share_group_progress(GROUP)
        left = {(one.partition, one.start_offset or 0) for one in progress if one.lag != 0}
        return left if progress else {(-1, -1)}

    async def _judged(self, left: set[Place]) -> Judgement:
        written = {
            (number, record.offset): bytes(record.value or b"").decode()
            for number, partition in enumerate(self.broker.cluster.topics[TOPIC].partitions)
            for record in _records(partition)
        }
        rest = {place for place in written for at in left if place[0] == at[0] and place[1] >= at[1]}
        witnesses = [
            Witness(one.entries, "".join(f"{line}\n" for line in one.lines), one.was_killed)
            for one in self._processes
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
        return judgement

    def _dead(self) -> dict[Place, str]:
        prefix, dead = "__dlq.errors.", {}
        for record in _records(self.broker.cluster.topics[GRAVE].partitions[0]):
            headers = {name: bytes(value or b"").decode() for name, value in record.headers}
            place = int(headers[f"{prefix}partition"]), int(headers[f"{prefix}offset"])
            dead[place] = headers[f"{prefix}message"]
        return dead


def _records(partition: Any) -> Iterator[Any]:
    for batch in partition.log.batches_from(partition.log.start_offset):
        if not batch.is_control:
            yield from batch.decode()


def simulate(plan: Plan, backend: str = "asyncio") -> Outcome:
    """All of it, blocking."""
    began = process_time()
    time = SimulatedTime(backend, plan.seed)
    kept: list[World] = []

    async def main() -> Judgement:
        surroundings.set(SimulatedSurroundings(time, Random(f"{plan.seed} ids")))
        world = World(plan, time)
        kept.append(world)
        return await world.run()

    with _logged(), _coarse_clock(time):
        judgement = time.run(main)
    world = kept[0]
    if world.broker.crashes:
        raise ExceptionGroup("the embedded broker failed", world.broker.crashes)
    done = world.done + world.book.done
    return Outcome(plan, judgement, world.history, time.now() - START_S, process_time() - began, done)


@contextmanager
def _coarse_clock(time: SimulatedTime) -> Iterator[None]:
    """Compiled modules read the system's all the same: what they do then isn't the same each time."""
    real = coarse_clock.coarse_ms
    coarse_clock.coarse_ms = lambda: int(time.now() * 1000)
    try:
        yield
    finally:
        coarse_clock.coarse_ms = real


@contextmanager
def _logged() -> Iterator[None]:
    logger, handler = logging.getLogger("kshare"), _LogHandler()
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
