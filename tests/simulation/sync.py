"""A world of consumers for blocking code: that of consumers, with `kshare.sync` in threads that take turns.

A process has a main thread, which gets signals, and maybe another one. Each opens consumers, uses them in random ways
and closes them. `kshare.sync` starts threads of its own. Its event loops belong to asyncio, so the world's does, too.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from kshare import KshareError
from kshare.broker.cluster_server import ClusterServer
from tests.integration.consumer_storm import blocking_program
from tests.integration.consumer_storm.diary import Event
from tests.simulation.blocking import wait_for
from tests.simulation.consumers import ConsumerPlan, ConsumerWorld, SimulatedNotes
from tests.simulation.processes import Process
from tests.simulation.sync_seams import sync_seams
from tests.simulation.threaded_processes import ThreadedProcess
from tests.simulation.threads import Thread, current, sleep
from tests.simulation.world import Verdict

_FAILED = "thread failed"
_SECOND_THREAD = 0.3
"""The share of processes in which two threads have consumers."""
_AT_ANY_LINE = 0.7
"""The share of signals that don't wait until their process does."""
_LINES = 300


class _Notes(SimulatedNotes):
    """`set_handler` is called with what SIGTERM is to do."""

    def __init__(self, orders: Any, process: ThreadedProcess, chance: Random) -> None:
        super().__init__(orders, process, chance)
        self._process = process

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
    smooth = ConsumerWorld.smooth | {"interrupt", "threads"}

    async def run(self) -> Verdict:
        with sync_seams():
            verdict = await super().run()
        verdict.problems[_FAILED] = [
            error for one in self.processes if isinstance(one, ThreadedProcess) for error in one.errors
        ]
        return verdict

    def start_consumer(self, tasks: TaskGroup) -> None:
        process = self.new_process(f"consumer-{len(self.processes)}", ThreadedProcess)
        process.clock, process.watch = self.time.now, self.tasks
        process.chance = Random(f"{self.plan.seed} {process.number} threads")
        process.is_restless = "threads" in self.plan.faults
        tasks.start_soon(self._run_process, process)

    async def _run_process(self, process: ThreadedProcess) -> None:
        process.enter()
        try:
            with process.scope:
                async with anyio.create_task_group() as tasks:
                    await process.live(partial(self._program, process), tasks)
                    tasks.cancel_scope.cancel()
        finally:
            process.end()
            process.ended.set()

    # --- blocking code

    def _program(self, process: ThreadedProcess) -> None:
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
            if thread == "main":
                process.handlers[signal.SIGINT] = signal.default_int_handler
            try:
                blocking_program.live(notes)
            except (KshareError, KeyboardInterrupt) as error:
                process.handlers.clear()
                notes.did(f"ended by {type(error).__name__}")
                sleep(0.1)
            else:
                process.handlers.clear()
                self.note_whether_left(notes.member, process.lines[said:])
            if is_only:
                wait_for(partial(self.note_left_behind, process))

    async def note_left_behind(self, process: Process) -> None:
        await super().note_left_behind(process)
        if isinstance(process, ThreadedProcess) and (left := process.left_open()):
            self.left_behind.append(f"{process.name} at {self.time.now():.3f}: {left}")

    # --- faults

    async def _interrupt(self, server: ClusterServer, tasks: TaskGroup) -> None:
        chance = self.chance
        alive = [
            one
            for one in self.processes
            if isinstance(one, ThreadedProcess) and not (one.was_killed or one.ended.is_set())
        ]
        if alive:
            number = chance.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM])
            lines = chance.randrange(1, _LINES) if chance.random() < _AT_ANY_LINE else 0
            chance.choice(alive).signal(number, after_lines=lines)

    async def _threads(self, server: ClusterServer, tasks: TaskGroup) -> None:
        """Their processes are restless all the time."""
