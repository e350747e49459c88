"""What all simulations have: an embedded cluster, its network, and what disturbs them. Subclasses add the programs.

Everything runs in one thread, and one seed decides what happens when.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from time import process_time
from typing import Any, Self, TypeVar
from unittest.mock import patch

import anyio
from anyio.abc import TaskGroup

import kshare.fast.coarse_clock as coarse_clock
from kshare.broker import broker as embedded
from kshare.broker import cluster_server
from kshare.broker.cluster_server import ClusterServer
from kshare.installation import warn_if_slow
from kshare.net import handshake
from kshare.surroundings import monotonic, surroundings
from tests.simulation.bounds import noisy
from tests.simulation.changes import Changes
from tests.simulation.ledger import Ledger
from tests.simulation.loop import START_S, SimulatedTime, TaskWatch
from tests.simulation.network import Conditions, Link, ProcessNetwork, SimulatedNetwork
from tests.simulation.pace import USUAL, Pace
from tests.simulation.processes import PROCESS, Process, SimulatedSurroundings, logged
from tests.simulation.tap import Tap

_HOST = "10.0.0.1"
_SHORTEST_S = 1.0
_BUSY, _NOISY, _LEFT_BEHIND = "busy loop", "noisy", "left behind"
_ENDS_SOON_S = 0.01
_COLLECT_EVERY_S = 120.0
_GOES_ON_S = 300.0
_LOOKS = 5
_OFTEN = 0.4
"""The share of its changes that a world with changes has."""

PlanT = TypeVar("PlanT", bound="Plan")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a seed has drawn."""

    seed: int
    nodes: int
    partitions: int
    lasts_s: float
    rate: float
    """The share of responses that something happens to."""
    delay_s: float
    capacity: int
    faults: frozenset[str]
    changes: frozenset[str] = frozenset()
    pace: Pace = USUAL

    def smaller(self) -> Iterator[Self]:
        """Each with a little less: of faults, of the cluster, of time."""
        for fault in sorted(self.faults):
            yield replace(self, faults=self.faults - {fault})
        for change in sorted(self.changes):
            yield replace(self, changes=self.changes - {change})
        if self.rate:
            yield replace(self, rate=0.0)
        for name in self.numbers():
            number = getattr(self, name)
            if number > 1:
                for fewer in sorted({1, number // 2, number - 1}):
                    yield replace(self, **{name: fewer})
        if self.lasts_s > _SHORTEST_S:
            yield replace(self, lasts_s=max(_SHORTEST_S, self.lasts_s / 2))

    @staticmethod
    def numbers() -> Iterable[str]:
        """What there is a number of, at least one."""
        return ("nodes", "partitions")


@dataclass
class Verdict:
    """What was found wrong, by kind, and counts of what happened."""

    problems: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class Outcome:
    plan: Plan
    verdict: Verdict
    history: list[str]
    simulated_s: float
    cpu_s: float
    done: Counter[str]
    requests: Counter[str]
    """What brokers were asked, by API."""

    @property
    def problems(self) -> dict[str, list[str]]:
        return {kind: found for kind, found in self.verdict.problems.items() if found}


class World(ABC):
    faults: tuple[str, ...] = ("kill", "cut", "stall", "refuse", "node", "leader", "responses")
    """A seed draws some of them. All but the moods are methods."""
    moods: frozenset[str] = frozenset({"responses"})
    """Those that last."""
    changes: tuple[str, ...] = ()
    """A seed draws some of them, if changes are wanted. They are methods of `Changes`."""
    backends: tuple[str, ...] = ("asyncio", "trio")
    can_be_slow = True
    topic: str
    """The topic whose leaders move, and that changes."""
    group: str = ""
    """The group that reads it."""

    longest_end_s = 120.0
    """How long programs may take to end, once they are told to."""
    watchers: tuple[str, ...] = ()
    """Processes that read what the brokers know: they may ask as often as they like."""

    def __init__(self, plan: Plan, time: SimulatedTime, settings: Mapping[str, str] | None = None) -> None:
        self.plan = plan
        self.time = time
        self.tasks = TaskWatch(PROCESS)
        self.left_behind: list[str] = []
        """What clients have left behind when they were closed."""
        self.chance = Random(f"{plan.seed} world")
        self.is_over = False
        self.history: list[str] = []
        self.done: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.broker = embedded.Broker(nodes=plan.nodes, settings=settings)
        for node in self.broker.cluster.nodes.values():
            node.host = _HOST
        self.ledger = Ledger(self.broker, self.topic, self.group if plan.changes else "", time.now)
        self._suspended: dict[Process, float] = {}
        """Since when."""
        self.is_collected = True
        """Whether Python's garbage collector runs now and then. Nothing that clients do may depend on it."""
        self.crashing: set[int] = set()
        """Nodes that are being stopped."""

    @classmethod
    def with_changes(cls, plan: PlanT) -> PlanT:
        """The same, with some of the changes that this world knows."""
        chance, possible = Random(f"{plan.seed} changes"), cls.changes_with(plan)
        drawn = {change for change in possible if chance.random() < _OFTEN}
        return replace(plan, changes=frozenset(drawn or {chance.choice(possible)}))

    @classmethod
    def changes_with(cls, plan: Plan) -> Sequence[str]:
        """Those that make sense with what the plan has."""
        return cls.changes

    def note(self, who: str, what: str, member: str = "") -> None:
        self.history.append(f"{monotonic():.6f} {who} {what} {member}".rstrip())

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{node.host}:{node.port}" for node in self.broker.cluster.nodes.values())

    async def run(self) -> Verdict:
        plan = self.plan
        async with anyio.create_task_group() as carrying:
            conditions = Conditions((0.0, plan.delay_s), plan.capacity, plan.pace.idle_limit_s)
            self.network = SimulatedNetwork(
                Random(f"{plan.seed} network"), conditions, carrying, self.new_tap
            )
            if plan.pace.is_slow:
                carrying.start_soon(self._collect_now_and_then)
            async with cluster_server.run(self.broker, listen=self.network.listen) as server:
                async with anyio.create_task_group() as tasks:
                    self.start(tasks)
                    if plan.changes:
                        tasks.start_soon(Changes(self, server).run)
                    await self._disturb(server, tasks)
                    if plan.pace.is_slow:
                        self._stop_disturbing()
                        await self._go_on(tasks)
                    self.is_over = True
                    self.note("world", "calm")
                    self._stop_disturbing()
                    for process in self.processes:
                        with anyio.fail_after(self.longest_end_s * plan.pace.look_every):
                            await process.ended.wait()
                verdict = await self.judged()
            carrying.cancel_scope.cancel()
        verdict.problems |= self._bounds()
        return verdict

    def _stop_disturbing(self) -> None:
        self.set_rate(0.0)
        self.network.refuses_until = 0.0

    async def _go_on(self, tasks: TaskGroup) -> None:
        """In slow simulations, programs that have run for hours go on for a while, and nothing disturbs them."""
        await anyio.sleep(_GOES_ON_S)

    def _bounds(self) -> dict[str, list[str]]:
        programs = [process for process in self.processes if process.name not in self.watchers]
        names = {program.name for program in programs}
        loops = [text for owner, text in self.network.traffic.busy_loops() if owner in names]
        if self.plan.pace.is_slow:
            chatty = self.network.traffic.chatty(len(self.broker.cluster.nodes))
            loops += [text for owner, text in chatty if owner in names]
        lines = {program.name: [*zip(program.logged_at, program.lines, strict=True)] for program in programs}
        return {_BUSY: loops, _NOISY: [*noisy(lines)], _LEFT_BEHIND: self.left_behind}

    async def note_left_behind(self, process: Process) -> None:
        """The only client of the process was closed."""
        await anyio.sleep(_ENDS_SOON_S)
        if process.was_killed:
            return
        tasks = [name for name in self.tasks.names(process) if name.startswith("kshare")]
        connections = sum(link.owner == process.name and link.is_used for link in self.network.links)
        if tasks or connections:
            self.left_behind.append(
                f"{process.name} at {monotonic():.3f}: {connections} connections, tasks {tasks}"
            )

    async def sleep_while_behind(self, every_s: float, *groups: str) -> None:
        """Until it is worth asking how far groups have got: reading their stored states takes half of a simulation.

        Sleeps on while leaders have records that the groups haven't settled, though not for long.
        """
        for _ in range(_LOOKS):
            await anyio.sleep(every_s)
            leaders = [leader for leader in self.broker.shares.loaded() if leader.group in groups]
            if all(leader.shared.start_offset >= leader.partition.log.end_offset for leader in leaders):
                return

    # --- what subclasses add

    @abstractmethod
    def start(self, tasks: TaskGroup) -> None:
        """Start the programs."""

    @abstractmethod
    def restart(self, tasks: TaskGroup, killed: Process) -> None:
        """Start a program in place of one that was killed."""

    @abstractmethod
    def may_be_killed(self, process: Process) -> bool: ...

    @abstractmethod
    def new_tap(self) -> Tap:
        """Sees what passes over a new connection."""

    @abstractmethod
    def set_rate(self, rate: float) -> None:
        """The share of responses that something happens to."""

    @abstractmethod
    async def judged(self) -> Verdict:
        """When all programs have ended, and nothing is disturbed any more."""

    def new_process(self, name: str, kind: Callable[..., Process] = Process) -> Any:
        process = kind(name, len(self.processes), ProcessNetwork(self.network, name), self.note)
        self.processes.append(process)
        return process

    @asynccontextmanager
    async def emptied_group(self) -> AsyncIterator[None]:
        """No member of the group goes on within."""
        yield

    @property
    def partitions(self) -> int:
        """How many the topic has."""
        found = self.broker.cluster.topics.get(self.topic)
        return self.plan.partitions if found is None else len(found.partitions)

    # --- processes that stand still

    def suspend(self, process: Process) -> None:
        if process not in self._suspended:
            self.note(process.name, "suspended")
            self._suspended[process] = monotonic()
            self.time.suspension.suspend(process, PROCESS)

    def resume(self, process: Process) -> None:
        if process in self._suspended:
            self.note(process.name, "resumed")
            process.suspended.append((self._suspended.pop(process), monotonic()))
            self.time.suspension.resume(process)

    async def _collect_now_and_then(self) -> None:
        """In hours, much is left in cycles."""
        while True:
            await anyio.sleep(_COLLECT_EVERY_S)
            self._collect()

    def _collect(self) -> None:
        if self.is_collected:
            gc.collect(1)

    # --- faults

    async def _disturb(self, server: ClusterServer, tasks: TaskGroup) -> None:
        plan, chance = self.plan, self.chance
        await anyio.sleep(0.5)
        if "responses" in plan.faults:
            self.set_rate(plan.rate)
        deeds = sorted(plan.faults - self.moods)
        until = anyio.current_time() + plan.lasts_s
        while anyio.current_time() < until:
            pause = plan.pace.until_fault(chance)
            if plan.pace.is_slow:  # by hours: programs don't go on for that long
                pause = min(pause, max(0.0, until - anyio.current_time()))
            await anyio.sleep(pause)
            if deeds:
                deed = chance.choice(deeds)
                self.done[deed] += 1
                self.note("world", deed)
                self._collect()
                await getattr(self, f"_{deed}")(server, tasks)
        for node in self.broker.cluster.nodes.values():
            if not node.is_up:
                await server.start_node(node)

    async def _kill(self, server: ClusterServer, tasks: TaskGroup) -> None:
        alive = [
            process for process in self.processes if self.may_be_killed(process) and not process.was_killed
        ]
        if alive:
            killed = self.chance.choice(alive)
            killed.kill()
            self.resume(killed)
            self.restart(tasks, killed)

    def _links(self) -> list[Link]:
        """Those that may be disturbed. In hours, many have been closed."""
        links = self.network.links
        return [link for link in links if link.is_used] if self.plan.pace.is_slow else links

    async def _cut(self, server: ClusterServer, tasks: TaskGroup) -> None:
        links = self._links()
        if links:
            link = self.chance.choice(links)
            self.note(link.owner, "a connection is cut")
            link.cut()

    async def _stall(self, server: ClusterServer, tasks: TaskGroup) -> None:
        chance, links = self.chance, self._links()
        if links:
            link = chance.choice(links)
            up, down = chance.choice([(True, True), (True, False), (False, True)])
            seconds = chance.choice([0.2, 1.0, 4.0, 30.0]) * self.plan.pace.stretch(chance)
            self.note(link.owner, f"a connection stalls for {seconds} s")
            link.stall(seconds, up=up, down=down)

    async def _refuse(self, server: ClusterServer, tasks: TaskGroup) -> None:
        seconds = self.chance.uniform(0.1, 2.0) * self.plan.pace.stretch(self.chance)
        self.note("world", f"connections are refused for {seconds:.3f} s")
        self.network.refuses_until = anyio.current_time() + seconds

    async def _node(self, server: ClusterServer, tasks: TaskGroup) -> None:
        nodes = [*self.broker.cluster.nodes.values()]
        down = [node for node in nodes if not node.is_up]
        if down:
            self.note(f"node-{down[0].id}", "starts")
            await server.start_node(down[0])
        elif len(nodes) > 1:
            node = self.chance.choice(nodes)
            if node.id in self.crashing:
                return
            self.note(f"node-{node.id}", "stops")
            await server.stop_node(node)

    async def _leader(self, server: ClusterServer, tasks: TaskGroup) -> None:
        cluster = self.broker.cluster
        up = [node.id for node in cluster.nodes.values() if node.is_up]
        if up and self.topic in cluster.topics:
            partition = self.chance.choice(cluster.topics[self.topic].partitions)
            leader = self.chance.choice(up)
            self.note("world", f"{self.topic}[{partition.index}] is moved to node-{leader}")
            cluster.move_leader(partition, leader)


def records_of(partition: Any) -> Iterator[Any]:
    """All records in the log of a partition."""
    for batch in partition.log.batches_from(partition.log.start_offset):
        if not batch.is_control:
            yield from batch.decode()


def simulate(
    kind: Callable[[Any, SimulatedTime], World],
    plan: Plan,
    backend: str = "asyncio",
    *,
    is_collected: bool = True,
) -> Outcome:
    """All of it, blocking."""
    began = process_time()
    time = SimulatedTime(backend, plan.seed)
    kept: list[World] = []
    tasks = TaskWatch(PROCESS)

    async def main() -> Verdict:
        surroundings.set(SimulatedSurroundings(time, Random(f"{plan.seed} ids")))
        world = kind(plan, time)
        world.tasks = tasks
        world.is_collected = is_collected
        kept.append(world)
        return await world.run()

    with logged(), _pinned(time), plan.pace.kept(), _collecting_by_hand():
        warn_if_slow()  # now, or the first of several seeds would have this line more than the others
        verdict = time.run(main, tasks)
    world = kept[0]
    if world.broker.crashes:
        raise ExceptionGroup("the embedded broker failed", world.broker.crashes)
    requests: Counter[str] = Counter()
    for (api, _), count in world.broker.counters.requests.items():
        requests[api] += count
    cpu_s = process_time() - began
    return Outcome(plan, verdict, world.history, time.now() - START_S, cpu_s, world.done, requests)


@contextmanager
def _collecting_by_hand() -> Iterator[None]:
    """Otherwise, what was allocated before decides when an iterator that was left in a cycle is closed.

    What is there before stays frozen, since the process has imported it. To look through it before and after each
    simulation would take an eighth of the processor time.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _pinned(time: SimulatedTime) -> Iterator[None]:
    """What else would differ from one run to the next.

    Compiled modules read the system's coarse clock all the same: what they do then isn't the same each time. kshare's
    version is part of a request, whose length decides where it is cut.
    """
    with (
        patch.object(coarse_clock, "coarse_ms", lambda: int(time.now() * 1000)),
        patch.object(handshake, "kshare_version", lambda: "0.0.0"),
    ):
        yield
