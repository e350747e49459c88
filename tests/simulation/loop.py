"""Event loops of asyncio and trio whose time jumps to the next timer when nothing can run."""

from __future__ import annotations

import asyncio
import selectors
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import anyio
import sniffio
import trio
import trio._core._run as trio_scheduler
from anyio._backends._asyncio import CancelScope
from trio.testing import MockClock

from tests.simulation.suspending import SuspendingLoop, TrioSuspension

ResultT = TypeVar("ResultT")

START_S = 1_000.0


class Standstill(Exception):
    """No task can ever run again: nothing waits for a time."""


class _InOrder(dict[Any, None]):
    """A set that is iterated in the order of insertion. Sets of tasks depend on addresses in memory."""

    def add(self, value: Any) -> None:
        self[value] = None

    def remove(self, value: Any) -> None:
        del self[value]

    def discard(self, value: Any) -> None:
        self.pop(value, None)


@contextmanager
def _cancelling_in_order() -> Iterator[None]:
    """Let anyio's scopes cancel their tasks in the same order each time."""
    real = CancelScope.__init__

    def begin(self: Any, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        self._child_scopes, self._tasks = _InOrder(), _InOrder()

    CancelScope.__init__ = begin  # type: ignore[method-assign]
    try:
        yield
    finally:
        CancelScope.__init__ = real  # type: ignore[method-assign]


class SimulatedLoop(SuspendingLoop):
    """Only for programs without threads and sockets."""

    def __init__(self) -> None:
        self._selector_of_time = _Selector()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        return self._selector_of_time.now

    def jump(self, seconds: float) -> None:
        """As if the process had computed all that time."""
        self._selector_of_time.now += seconds


class IdleSelector(selectors.BaseSelector):
    """Nothing happens to its files. Asyncio registers a pipe with which threads wake a loop: here, none does."""

    def __init__(self) -> None:
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, int(fileobj), events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.wait(timeout)
        return []

    @abstractmethod
    def wait(self, seconds: float | None) -> None:
        """None: until something happens."""

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class _Selector(IdleSelector):
    """Instead of waiting for sockets, it sets the time forward."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START_S

    def wait(self, seconds: float | None) -> None:
        if seconds is None:
            raise Standstill
        self.now += max(0.0, seconds)


class SimulatedTime:
    """The time of the event loop that `run` runs in."""

    def __init__(self, backend: str, seed: int) -> None:
        self._seed = seed
        self._backend = backend
        self._loop = SimulatedLoop() if backend == "asyncio" else None
        self._clock = MockClock(autojump_threshold=0)
        self.suspension: SuspendingLoop | TrioSuspension = self._loop or TrioSuspension()

    def now(self) -> float:
        return self._loop.time() if self._loop is not None else START_S + self._clock.current_time()

    def jump(self, seconds: float) -> None:
        """As if the process had computed all that time."""
        if self._loop is not None:
            self._loop.jump(seconds)
        else:
            self._clock.jump(seconds)

    def run(self, main: Callable[[], Awaitable[ResultT]], tasks: TaskWatch | None = None) -> ResultT:
        """Blocking. The same seed and program do the same each time. `tasks` is told of each task."""
        loop = self._loop
        if loop is not None:
            if tasks is not None:
                loop.set_task_factory(tasks.new_task)
            with _cancelling_in_order():
                return anyio.run(_on_asyncio, main, backend_options={"loop_factory": lambda: loop})
        options = {"clock": self._clock, "instruments": [] if tasks is None else [tasks]}
        with _scheduling_in_order(self._seed):
            return anyio.run(main, backend="trio", backend_options=options)


class TaskWatch(trio.abc.Instrument):
    """Notes which tasks there are, and what each was started for: `reason`, as the task has it that starts them."""

    def __init__(self, reason: ContextVar[Any]) -> None:
        self._reason = reason
        self._reasons: WeakKeyDictionary[Any, object] = WeakKeyDictionary()

    def new_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """Asyncio calls this."""
        task = asyncio.Task(coro, loop=loop, **options)
        self._reasons[task] = self._reason.get()
        task.add_done_callback(lambda done: self._reasons.pop(done, None))
        return task

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self._reasons[task] = task.context.get(self._reason)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._reasons.pop(task, None)

    def names(self, reason: object) -> list[str]:
        """Of the tasks that were started for this, and haven't ended."""
        found = [task for task, its_reason in self._reasons.items() if its_reason is reason]
        return sorted(task.get_name() if isinstance(task, asyncio.Task) else task.name for task in found)


async def _on_asyncio(main: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Otherwise anyio finds out at each of its calls which library runs."""
    before, sniffio.thread_local.name = sniffio.thread_local.name, "asyncio"
    try:
        return await main()
    finally:
        sniffio.thread_local.name = before


@contextmanager
def _scheduling_in_order(seed: int) -> Iterator[None]:
    """Trio runs tasks that are ready in a random order."""
    was_allowed = trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_scheduler._r.seed(seed)
    try:
        yield
    finally:
        trio_scheduler._ALLOW_DETERMINISTIC_SCHEDULING = was_allowed  # type: ignore[misc]
