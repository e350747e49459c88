"""The worker of a simulation: its handlers take, fail, hang, block and pause, as a seed decides.

What a record's handler does depends on the record's number, so that all programs agree, and a restarted one goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import Any

import anyio

from kshare.surroundings import wall_time
from kshare.worker import Breaker, Deliveries, Delivery, Retry, RetryTopics, Worker
from tests.integration.worker_storm.diary import Entry, Event
from tests.simulation.attributes import headers_of
from tests.simulation.processes import Process
from tests.simulation.runs import ONGOING_S, Rules, Runs

TOPIC, GROUP, DEAD, RESULTS = "orders", "workers", "dead.orders", "results"
ALWAYS_FAILS, FAILS_TWICE, HELD, PAUSES, ALWAYS_HANGS, HANGS, SWALLOWS, BLOCKS, REJECTED, WRONG = (
    11,
    23,
    31,
    41,
    47,
    61,
    67,
    71,
    83,
    89,
)
"""Of each hundred records, the ones that are not like others."""
_AT_TIMES = (FAILS_TWICE, HELD, PAUSES, ALWAYS_HANGS, HANGS, SWALLOWS, BLOCKS, REJECTED, WRONG)
"""Those that not every plan has."""
DELAYS_S = (0.1, 0.5)
_CALM_WORK_S = 0.05
_SLOW_WORK_S = (*(0.0,) * 30, *(0.05,) * 8, 10.0, 150.0)


class IsDown(Exception):
    """The dependency."""


class IsBad(Exception):
    """The record."""


@dataclass(frozen=True, kw_only=True)
class HandlerPlan:
    """What handlers do."""

    concurrency: int
    attempts: int
    batch_size: int
    """0: records are handled one by one."""
    has_retry_topics: bool
    is_ordered: bool
    has_breaker: bool
    publishes: bool
    keeps_letters: bool
    """Whether a function keeps dead letters. Otherwise they are in a topic."""
    moves_runs: bool
    time_limit_s: float
    drain_s: float
    oddities: frozenset[int]
    delays_s: tuple[float, ...] = DELAYS_S
    """Before further attempts."""
    tiers_s: tuple[float, ...] = (0.5, 2.0)
    """Those of the retry topics."""
    probe_after_s: float = 0.3
    """How long a breaker stays open until a record is tried."""
    work_s: tuple[float, ...] = (0.0, 0.0, 0.01, 0.05)
    """How long handlers take."""

    @classmethod
    def drawn(cls, seed: int) -> HandlerPlan:
        chance = Random(f"{seed} handlers")
        concurrency = chance.choice([1, 2, 5, 20])
        attempts = chance.choice([1, 2, 3])
        batch_size = chance.choice([0, 0, 4, 20])
        has_retry_topics = chance.random() < 0.3
        is_ordered = not batch_size and not has_retry_topics and chance.random() < 0.5
        return cls(
            concurrency=concurrency,
            attempts=attempts,
            batch_size=batch_size,
            has_retry_topics=has_retry_topics,
            is_ordered=is_ordered,
            has_breaker=chance.random() < 0.7,
            publishes=chance.random() < 0.4,
            keeps_letters=chance.random() < 0.5,
            moves_runs=has_retry_topics and chance.random() < 0.5,
            time_limit_s=chance.choice([0.5, 2.0]),
            drain_s=chance.choice([0.2, 2.0, 10.0]),
            oddities=frozenset(oddity for oddity in _AT_TIMES if chance.random() < 0.5),
        )

    @classmethod
    def slow(cls, seed: int) -> HandlerPlan:
        """Handlers may take minutes, and what failed is tried again after minutes."""
        chance = Random(f"{seed} slow handlers")
        return replace(
            cls.drawn(seed),
            delays_s=chance.choice([(5.0, 60.0), (60.0, 600.0)]),
            tiers_s=chance.choice([(30.0, 300.0), (5.0, 900.0)]),
            probe_after_s=chance.choice([5.0, 60.0]),
            time_limit_s=chance.choice([60.0, 600.0]),
            drain_s=chance.choice([2.0, 30.0]),
            work_s=_SLOW_WORK_S,
        )

    def smaller(self) -> Iterator[HandlerPlan]:
        """Each with a little less."""
        for oddity in sorted(self.oddities):
            yield replace(self, oddities=self.oddities - {oddity})
        if self.has_retry_topics:
            yield replace(self, has_retry_topics=False, moves_runs=False)
        for name in ("is_ordered", "has_breaker", "publishes", "keeps_letters", "moves_runs"):
            if getattr(self, name):
                without: dict[str, Any] = {name: False}
                yield replace(self, **without)
        if self.batch_size:
            yield replace(self, batch_size=0)
        if self.concurrency > 1:
            yield replace(self, concurrency=self.concurrency // 2)


@dataclass
class Scene:
    """What the workers of a simulation have in common."""

    plan: HandlerPlan
    lock_s: float
    jump: Callable[[float], None]
    """As if the process had computed so long."""
    was_redelivered: Callable[[int, int], bool]
    """Whether brokers have delivered the record at this partition and offset more than once."""
    stops: int = 0
    """How often everybody has stood still because of that."""
    is_down: bool = False
    is_calm: bool = False
    """Nothing goes wrong any more, but for records that are wrong themselves."""
    batches_pause_after_s: float = inf
    """How long after a pause has begun a batch may be handled that was collected before: copies may come first."""
    keeps_delays: bool = True
    """Whether nothing makes workers process what they hold early."""
    seen: set[str] = field(default_factory=set)
    tried: set[tuple[str, int, int]] = field(default_factory=set)
    """Records that any worker has begun, by topic, partition and offset."""
    found: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """What was wrong with runs of handlers."""
    keys: dict[int, bytes] = field(default_factory=dict)
    """With which each record was written, by its number."""

    def is_first_time(self, name: str) -> bool:
        if name in self.seen:
            return False
        self.seen.add(name)
        return True


@dataclass(eq=False)
class WorkerProcess(Process):
    entries: list[Entry] = field(default_factory=list)
    worker: Worker | None = None
    runs: list[Runs] = field(default_factory=list)
    """Those of each of its workers, one after another."""
    was_told_again: bool = False
    """Whether it was told to stop a second time: then a worker gives back what it has at once."""

    @property
    def is_serving(self) -> bool:
        """Whether it has a worker, and goes on."""
        return self.worker is not None and not self.was_killed and not self.runs[-1].is_stopping

    def stop(self) -> None:
        """Tell the worker to stop."""
        assert self.worker is not None, "asked before"
        self.was_told_again |= self.runs[-1].is_stopping
        self.runs[-1].is_stopping = True
        self.call(self.worker.stop)

    def write(self, event: Event, number: int, delivery: Delivery) -> None:
        if not self.was_killed:
            self.entries.append(Entry(event, wall_time(), number, delivery.attempt, delivery.delivery_count))
            where = f"{delivery.topic}[{delivery.partition}]:{delivery.offset}"
            self.note(self.name, f"{event} record {number} ({where}), attempt {delivery.attempt}")


_NOT_KEPT = ("are retried early", "deliveries ended without a result")
"""What a worker says that processes early what it holds, or makes dead letters of it, as when the limit is lowered."""


def number_of(delivery: Delivery) -> int:
    return int(delivery.value or b"")


def build(bootstrap: str, scene: Scene, process: WorkerProcess, chance: Random) -> Worker:
    plan = scene.plan
    worker = process.worker = Worker(
        bootstrap,
        group=GROUP,
        concurrency=plan.concurrency,
        retry=Retry(attempts=plan.attempts, delay=plan.delays_s),
        retry_topics=RetryTopics(tiers=plan.tiers_s) if plan.has_retry_topics else False,
        move_runs=plan.moves_runs,
        breaker=_breaker(plan) if plan.has_breaker else None,
        time_limit=plan.time_limit_s,
        drain_timeout=plan.drain_s,
        dead_letters=_letter_function(scene, process) if plan.keeps_letters else DEAD,
    )
    rules = Rules(
        topic=TOPIC,
        concurrency=plan.concurrency,
        attempts=plan.attempts,
        delays=plan.delays_s,
        time_limit_s=plan.time_limit_s,
        is_ordered=plan.is_ordered,
        keeps_delays=lambda: (
            scene.keeps_delays and not any(said in line for line in process.lines for said in _NOT_KEPT)
        ),
        has_copies=plan.has_retry_topics,
        counts_all=not plan.has_breaker and not plan.has_retry_topics,
        pauses_after_s=scene.batches_pause_after_s if plan.batch_size else ONGOING_S,
    )
    runs = Runs(
        rules,
        anyio.current_time,
        lambda: scene.stops + len(process.suspended),
        scene.found,
        scene.was_redelivered,
        scene.tried,
    )
    process.runs.append(runs)
    act = _Acting(worker, scene, process, runs, chance)
    if plan.batch_size:

        @worker.batch_handler(TOPIC, batch_size=plan.batch_size, batch_wait=0.05)
        async def handle_batch(batch: Deliveries) -> None:
            with runs.run(batch):
                for delivery in batch:
                    process.write(Event.BEGAN, number_of(delivery), delivery)
                for delivery in batch:
                    await act.on(delivery)
                if plan.publishes:
                    for delivery in batch:
                        batch.publish(RESULTS, b"%d" % number_of(delivery))
                for delivery in batch:
                    process.write(Event.SUCCEEDED, number_of(delivery), delivery)

    else:

        @worker.handler(TOPIC, order="key" if plan.is_ordered else "none")
        async def handle(delivery: Delivery) -> None:
            number = number_of(delivery)
            with runs.run([delivery]):
                process.write(Event.BEGAN, number, delivery)
                if await act.on(delivery):
                    if plan.publishes:
                        delivery.publish(RESULTS, b"%d" % number)
                    process.write(Event.SUCCEEDED, number, delivery)

    return worker


def _breaker(plan: HandlerPlan) -> Breaker:
    """Others may get all records that could close it: then what always fails stays until its patience is over."""
    probe_s = plan.probe_after_s
    return Breaker(
        min_failures=5, probe_after=probe_s, window=max(2.0, probe_s), patience=max(60.0, 20 * probe_s)
    )


def _letter_function(scene: Scene, process: WorkerProcess) -> Callable[[Delivery, str], Awaitable[None]]:
    async def bury(delivery: Delivery, reason: str) -> None:
        number = number_of(delivery)
        if number % 4 == 3 and not scene.is_calm and scene.is_first_time(f"buried {number}"):
            await anyio.sleep_forever()
        process.write(Event.BURIED, number, delivery)

    return bury


class _Acting:
    def __init__(
        self, worker: Worker, scene: Scene, process: WorkerProcess, runs: Runs, chance: Random
    ) -> None:
        self._worker = worker
        self._scene = scene
        self._process = process
        self._runs = runs
        self._chance = chance

    async def on(self, delivery: Delivery) -> bool:
        """Do what this record's handler does. Returns whether its work is done."""
        scene, chance, number = self._scene, self._chance, number_of(delivery)
        if delivery.key != scene.keys[number]:
            scene.found["wrong contents"].append(f"{delivery!r}: key {delivery.key!r}")
        if tuple(delivery.headers) != headers_of(number):
            scene.found["wrong contents"].append(f"{delivery!r}: headers {delivery.headers!r}")
        kind = number % 100
        if scene.is_down:
            if chance.random() < 0.2:
                await anyio.sleep_forever()
            self._runs.failed(delivery)
            raise IsDown
        if kind == ALWAYS_FAILS:
            self._runs.failed(delivery)
            raise IsBad
        if kind == ALWAYS_HANGS and kind in scene.plan.oddities:
            await anyio.sleep_forever()
        if not scene.is_calm and kind in scene.plan.oddities:
            if kind == FAILS_TWICE and delivery.attempt < 3:
                self._runs.failed(delivery)
                raise IsBad
            if scene.is_first_time(f"{kind} {number}"):
                return await self._oddly(delivery, kind)
        work_s = chance.choice(scene.plan.work_s)
        await anyio.sleep(min(work_s, _CALM_WORK_S) if scene.is_calm else work_s)
        return True

    async def _oddly(self, delivery: Delivery, kind: int) -> bool:
        lock_s, chance = self._scene.lock_s, self._chance
        if kind == HANGS:
            await anyio.sleep_forever()
        if kind == SWALLOWS:
            self._runs.shielded(delivery)
            with anyio.CancelScope(shield=True):
                await anyio.sleep(chance.uniform(0.1, 1.5) * lock_s)
        if kind == BLOCKS:
            self._scene.stops += 1
            self._scene.jump(chance.uniform(0.1, 1.2) * lock_s)
        if kind == PAUSES:
            seconds = chance.uniform(0.2, 2.5 * lock_s)
            self._worker.pause(TOPIC, seconds)
            self._runs.paused(seconds)
        if kind == WRONG:
            raise GeneratorExit
        if kind == HELD and not self._scene.plan.batch_size:
            delay = chance.uniform(0.0, 2.0 * lock_s)
            delivery.release(delay=delay)
            self._runs.delayed(delivery, delay)
            return False
        if kind == REJECTED and not self._scene.plan.batch_size:
            delivery.reject("as its seed wants")
            return False
        return True
