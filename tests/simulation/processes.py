"""Programs of a simulation, each with its own connections and log. They share a loop, and can be killed one by one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from random import Random

import anyio

from kshare.net.tcp import network
from kshare.surroundings import Surroundings, monotonic
from tests.simulation.loop import START_S, SimulatedTime
from tests.simulation.network import ProcessNetwork

_EPOCH_S = 1_750_000_000.0
_TICK_S = 1e-9


def wall_time_at(now: float) -> float:
    """The time of day, in seconds since 1970, at a time of the loop."""
    return _EPOCH_S + now - START_S


class SimulatedSurroundings(Surroundings):
    def __init__(self, time: SimulatedTime, chance: Random) -> None:
        self._time = time
        self._chance = chance
        self._latest = 0.0
        self.wall_time = lambda: wall_time_at(time.now())
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


@dataclass(eq=False)
class Process:
    """`note` adds a line to the history of the world: who, what, and the member that it is about."""

    name: str
    number: int
    network: ProcessNetwork
    note: Callable[..., None]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    lines: list[str] = field(default_factory=list)
    logged_at: list[float] = field(default_factory=list)
    """When each of these lines was logged."""
    was_killed: bool = False
    suspended: list[tuple[float, float]] = field(default_factory=list)
    """From when to when it was suspended."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    _context: Context = field(default_factory=Context)

    def enter(self) -> None:
        """The current task belongs to this process from now on, and so do the tasks that it starts."""
        network.set(self.network)
        PROCESS.set(self)
        self._context = copy_context()

    def call(self, function: Callable[[], object]) -> None:
        """What it logs is this process's, like what its own tasks log."""
        self._context.copy().run(function)

    def log(self, line: str) -> None:
        if not self.was_killed:
            self.lines.append(line)
            self.logged_at.append(monotonic())
            self.note(self.name, line)

    def kill(self) -> None:
        """It can no longer tell anybody anything."""
        self.note(self.name, "killed")
        self.was_killed = True
        self.network.kill()
        self.scope.cancel()


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    return PROCESS.get()


class _LogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is not None:
            process.log(f"{record.levelname} {record.getMessage()}")


@contextmanager
def logged() -> Iterator[None]:
    """What kshare logs goes to the process that it runs in."""
    logger, handler = logging.getLogger("kshare"), _LogHandler()
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
