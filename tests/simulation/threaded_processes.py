"""Processes with threads, signals, and event loops that their threads run."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskGroup

from kshare.net.tcp import network
from tests.integration.consumer_storm.diary import Event
from tests.simulation.consumer_promises import DESCHEDULED
from tests.simulation.consumers import Member
from tests.simulation.fuses import is_lit, light
from tests.simulation.loop import TaskWatch
from tests.simulation.nested_loop import NestedLoop, NestedNetwork
from tests.simulation.processes import PROCESS
from tests.simulation.threads import Thread, current, current_or_none, sleep

_RESTLESS = 0.1
"""How often a thread that has waited is descheduled soon afterwards, if its process is restless."""
_MOST_DANGEROUS = 0.3
_SOON = 60
"""Lines of `kshare.sync`."""
_AWAY_S = (0.0, 0.0, 0.0, 0.02, 0.08)
"""`SharedLoop` has its background thread run the loop after 0.05 s."""


@dataclass(eq=False)
class ThreadedProcess(Member):
    """`clock` is that of the world."""

    clock: Callable[[], float] = lambda: 0.0
    watch: TaskWatch = field(default_factory=lambda: TaskWatch(PROCESS))
    chance: Random = field(default_factory=Random)
    is_restless: bool = False
    """The system deschedules its threads, between any two lines of `kshare.sync`."""
    is_interrupted: bool = False
    """Its user presses Ctrl-C."""
    handlers: dict[int, Any] = field(default_factory=dict)
    """Of signals."""
    threads: list[Thread] = field(default_factory=list)
    loops: list[NestedLoop] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """What nobody has handled, in threads and loops."""
    _pending: list[int] = field(default_factory=list)
    """Signals."""
    _signal_after: tuple[int, int] | None = None
    """A signal, and after how many lines it arrives."""

    @property
    def is_alive(self) -> bool:
        return not self.was_killed and not self.ended.is_set()

    def enter(self) -> None:
        super().enter()
        network.set(NestedNetwork(self.network, self))
        self._context = copy_context()

    async def live(self, program: Callable[[], None], tasks: TaskGroup) -> None:
        """Run a program, which blocks, in a thread of its own."""
        self.world_loop = asyncio.get_running_loop()
        self.tasks = tasks
        ended = anyio.Event()

        def run() -> None:
            try:
                program()
            finally:
                ended.set()

        self.main = Thread(run, "main", host=self)
        self.main.start()
        await ended.wait()

    def end(self) -> None:
        """Let tasks end that were left when it was killed."""
        for loop in self.loops:
            if not loop.is_closed():
                thread = threading.Thread(target=self.new_context().run, args=(loop.end,))
                thread.start()
                thread.join()

    def left_open(self) -> list[str]:
        """Threads and loops of clients."""
        threads = [thread.name for thread in self.threads if thread.name.startswith("kshare")]
        return [*threads, *("a loop" for loop in self.loops if not loop.is_closed())]

    # --- what its threads need

    def now(self) -> float:
        return self.clock()

    def new_context(self) -> Context:
        return self._context.copy()

    def spawn(self, function: Callable[[], Awaitable[Any]]) -> None:
        start: Callable[..., object] = self.tasks.start_soon
        self.world_loop.call_soon(start, function, context=self.new_context())

    def on_new_thread(self, thread: Thread) -> None:
        self.threads.append(thread)

    def on_ended(self, thread: Thread, error: BaseException | None) -> None:
        self.threads.remove(thread)
        if error is not None and not thread.is_killed:
            self.on_unhandled(f"thread {thread.name!r}: {error!r}")

    def on_unhandled(self, what: str) -> None:
        if not self.was_killed:
            self.errors.append(f"{self.name} at {self.now():.3f}: {what}")

    def on_resumed(self, thread: Thread) -> None:
        if thread is self.main and self._pending:
            self._call_handlers()
        if is_lit():
            return
        if thread is self.main and self._signal_after is not None:
            number, lines = self._signal_after
            self._signal_after = None
            light(lines, lambda: self._handle(number), lambda: True)
        elif self.is_restless and self.chance.random() < _RESTLESS:
            light(self.chance.randrange(_SOON), self._be_away, lambda: not thread.locks)

    def _be_away(self) -> None:
        """Other threads go on meanwhile."""
        seconds = self.chance.choice(_AWAY_S)
        sleep(seconds)
        if seconds:
            self.write(Event.DID, "", text=DESCHEDULED)

    # --- signals

    def signal(self, number: int, *, after_lines: int) -> None:
        """It arrives at the main thread while that waits, or after so many lines of `kshare.sync`."""
        self.note(self.name, f"signal {number} after {after_lines} lines")
        if after_lines:
            self._signal_after = number, after_lines
        else:
            self._pending.append(number)
            self.main.unpark()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """In here, SIGINT raises KeyboardInterrupt in the main thread. Elsewhere, signals are ignored."""
        if current() is not self.main:
            yield
            return
        try:
            self.handlers[signal.SIGINT] = signal.default_int_handler
            yield
        finally:
            self.handlers.clear()

    def interrupt_soon(self) -> None:
        """Called in a thread that is about to open or to close a client: Ctrl-C is most dangerous there."""
        is_main = current() is self.main
        if is_main and self.is_interrupted and not is_lit() and self.chance.random() < _MOST_DANGEROUS:
            light(self.chance.randrange(1, _SOON), lambda: self._handle(signal.SIGINT), lambda: True)

    def _call_handlers(self) -> None:
        while self._pending:
            self._handle(self._pending.pop(0))

    def _handle(self, number: int) -> None:
        handler = self.handlers.get(number)
        if callable(handler):
            handler(number, None)


def handler_of(number: int) -> Any:
    """In place of `signal.getsignal`."""
    return _host().handlers.get(number)


def set_handler(number: int, handler: Any) -> None:
    """In place of `signal.signal`."""
    _host().handlers[number] = handler


def main_thread() -> threading.Thread | None:
    """In place of `threading.main_thread`. None in the loop of the world, which no process has."""
    return None if current_or_none() is None else _host().main.real


def _host() -> ThreadedProcess:
    host = current().host
    assert isinstance(host, ThreadedProcess)
    return host
