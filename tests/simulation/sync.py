"""A world of blocking code: consumers and producers of `kshare.sync`, in threads that take turns.

It is that of consumers. A process has a main thread, which gets signals, and maybe another one. Each opens clients,
uses them in random ways and closes them. `kshare.sync` starts threads of its own. Its event loops belong to asyncio, so
the world's does, too.
"""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from kshare import KshareError
from kshare.broker.cluster_server import ClusterServer
from tests.integration.consumer_storm import blocking_program
from tests.integration.consumer_storm.diary import Event
from tests.integration.consumer_storm.judging import Place
from tests.simulation.attributes import compression_of
from tests.simulation.blocking import wait_for
from tests.simulation.blocking_writing import BlockingWriting
from tests.simulation.consumers import TOPIC, ConsumerPlan, ConsumerWorld, SimulatedNotes
from tests.simulation.loop import SimulatedTime
from tests.simulation.processes import Process
from tests.simulation.producers import committed_in, found_in
from tests.simulation.sync_seams import sync_seams
from tests.simulation.threaded_processes import ThreadedProcess
from tests.simulation.threads import Thread, current, sleep
from tests.simulation.world import Verdict, records_of

LEDGER = "ledger"
"""What is written in transactions."""
_UNHANDLED = "unhandled error"
_SECOND_THREAD = 0.3
"""The share of processes in which two threads have consumers."""
_AT_ANY_LINE = 0.7
"""The share of signals that don't wait until their process does."""
_LINES = 300
_SHARE_OF_TIME = 0.5
"""More happens in a second than in the world of consumers, and it takes longer to simulate."""
_REST_S = 60.0
"""Until transactions of killed producers are over, and requests of connections that stall have arrived."""


@dataclass(frozen=True, kw_only=True)
class SyncPlan(ConsumerPlan):
    writers: int
    transactional: bool
    """Whether another process writes in transactions."""

    @staticmethod
    def numbers() -> Iterable[str]:
        return (*ConsumerPlan.numbers(), "writers")


class _Notes(SimulatedNotes):
    def __init__(self, orders: Any, process: ThreadedProcess, chance: Random) -> None:
        super().__init__(orders, process, chance)
        self._process = process
        self._is_closing = False

    @property
    def is_over(self) -> bool:
        if not super().is_over:
            return False
        if not self._is_closing:
            self._is_closing = True
            self._process.interrupt_soon()
        return True

    def may_be_told_to_close(self, close: Callable[[], None]) -> None:
        def on_signal(*_: object) -> None:
            self.did("closed by a signal")
            close()

        if current() is self._process.main:
            self._process.handlers[signal.SIGTERM] = on_signal

    def settle(self, record: Any, way: str) -> bool:
        try:
            return super().settle(record, way)
        except KeyboardInterrupt:  # it is settled, or it isn't
            self.of(Event.TOO_LATE, record)
            raise

    def accept_all(self, batch: Any, rest: list[Any]) -> None:
        try:
            super().accept_all(batch, rest)
        except KeyboardInterrupt:
            for record in rest:
                self.of(Event.TOO_LATE, record)
            raise


class SyncWorld(ConsumerWorld):
    faults = (*ConsumerWorld.faults, "interrupt", "threads")
    moods = ConsumerWorld.moods | {"threads"}
    smooth = ConsumerWorld.smooth | {"interrupt", "threads"}
    changes = ()
    backends = ("asyncio",)
    can_be_slow = False
    plan: SyncPlan

    @classmethod
    def drawn(cls, seed: int) -> SyncPlan:
        chance = Random(f"{seed} writers")
        writers, is_transactional = chance.choice([1, 1, 2]), chance.random() < 0.5
        drawn = vars(super().drawn(seed))
        drawn["lasts_s"] *= _SHARE_OF_TIME
        return SyncPlan(**drawn, writers=writers, transactional=is_transactional)

    def __init__(self, plan: SyncPlan, time: SimulatedTime) -> None:
        super().__init__(plan, time)
        self.broker.cluster.create_topic(LEDGER, 1)
        self._writing: list[BlockingWriting] = []

    async def run(self) -> Verdict:
        with sync_seams():
            return await super().run()

    # --- programs

    def start(self, tasks: TaskGroup) -> None:
        for _ in range(self.plan.consumers):
            self.start_consumer(tasks)
        for _ in range(self.plan.writers):
            self._start_writer(tasks, "writer")
        if self.plan.transactional:
            self._start_writer(tasks, "ledger")

    def may_be_killed(self, process: Process) -> bool:
        return isinstance(process, ThreadedProcess) and not process.ended.is_set()

    def restart(self, tasks: TaskGroup, killed: Process) -> None:
        kind = killed.name.partition("-")[0]
        if kind == "consumer":
            self.start_consumer(tasks)
        else:
            self._start_writer(tasks, kind)

    def start_consumer(self, tasks: TaskGroup) -> None:
        process = self._new_process("consumer")
        tasks.start_soon(self._run_program, process, partial(self._consume, process))

    def _start_writer(self, tasks: TaskGroup, kind: str) -> None:
        process = self._new_process(kind)
        is_ledger = kind == "ledger"
        writing = BlockingWriting(
            process,
            self.bootstrap,
            LEDGER if is_ledger else TOPIC,
            1 if is_ledger else self.plan.partitions,
            "ledger" if is_ledger else None,
            compression_of(self.plan.seed),
            lambda: self.is_over,
            self.attributes_of,
            partial(wait_for, partial(self.note_left_behind, process)),
        )
        self._writing.append(writing)
        tasks.start_soon(self._run_program, process, writing.run)

    def _new_process(self, kind: str) -> ThreadedProcess:
        process: ThreadedProcess = self.new_process(f"{kind}-{len(self.processes)}", ThreadedProcess)
        process.clock, process.watch = self.time.now, self.tasks
        process.chance = Random(f"{self.plan.seed} {process.number} threads")
        process.is_restless = "threads" in self.plan.faults
        process.is_interrupted = "interrupt" in self.plan.faults
        return process

    async def _run_program(self, process: ThreadedProcess, program: Callable[[], None]) -> None:
        process.enter()
        try:
            with process.scope:
                async with anyio.create_task_group() as tasks:
                    await process.live(program, tasks)
                    tasks.cancel_scope.cancel()
        finally:
            process.end()
            process.ended.set()

    # --- blocking code

    def _consume(self, process: ThreadedProcess) -> None:
        if process.chance.random() < _SECOND_THREAD:
            other = Thread(partial(self._use_consumers, process, "other", is_only=False), "other")
            other.start()
            self._use_consumers(process, "main", is_only=False)
            other.join()
        else:
            self._use_consumers(process, "main", is_only=True)

    def _use_consumers(self, process: ThreadedProcess, thread: str, *, is_only: bool) -> None:
        """`is_only`: no other thread of the process has consumers."""
        chance = Random(f"{self.plan.seed} {process.number} {thread}")
        orders = self.orders()
        while not self.is_over:
            notes = _Notes(orders, process, chance)
            said = len(process.lines)
            try:
                with process.interruptible():
                    process.interrupt_soon()
                    blocking_program.live(notes)
            except (KshareError, KeyboardInterrupt) as error:
                notes.did(f"ended by {type(error).__name__}")
                sleep(0.1)
            else:
                self.note_whether_left(notes.member, process.lines[said:])
            if is_only:
                wait_for(partial(self.note_left_behind, process))

    async def note_left_behind(self, process: Process) -> None:
        await super().note_left_behind(process)
        if isinstance(process, ThreadedProcess) and (left := process.left_open()):
            self.left_behind.append(f"{process.name} at {self.time.now():.3f}: {left}")

    # --- faults

    async def _interrupt(self, server: ClusterServer, tasks: TaskGroup) -> None:
        """One signal, or a few in a row."""
        chance = self.chance
        alive = [
            process for process in self.processes if isinstance(process, ThreadedProcess) and process.is_alive
        ]
        if not alive:
            return
        process = chance.choice(alive)
        for _ in range(chance.choice([1, 1, 3])):
            number = chance.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM])
            lines = chance.randrange(1, _LINES) if chance.random() < _AT_ANY_LINE else 0
            process.signal(number, after_lines=lines)
            await anyio.sleep(chance.choice([0.0, 0.01, 0.2]))

    # --- the end

    async def judged(self) -> Verdict:
        verdict = await super().judged()
        await anyio.sleep(_REST_S)
        partitions = self.broker.cluster.topics[TOPIC].partitions
        logs = {
            number: [found_in(record) for record in records_of(partition)]
            for number, partition in enumerate(partitions)
        }
        visible: dict[bytes, list[Place]] = defaultdict(list)
        for row in committed_in(self.broker.cluster.topics[LEDGER].partitions[0]):
            visible[row.value].append((0, row.offset))
        problems: dict[str, list[str]] = defaultdict(list)
        for writing in self._writing:
            problems["contradiction"] += writing.account.contradictions(logs, lambda place: False)
            problems["broken promise"] += writing.account.broken
            problems["transaction"] += writing.transactions.contradictions(visible, set())
            verdict.counts.update(writing.account.counts)
            verdict.counts.update(writing.transactions.counts)
        for process in self.processes:
            if isinstance(process, ThreadedProcess):
                problems[_UNHANDLED] += process.errors
        verdict.problems |= problems
        return verdict
