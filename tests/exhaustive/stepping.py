"""An asyncio loop that only goes on when it is told to: what it waits for is then decided by a list of events."""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

START_S = 1_000.0


class _Selector:
    """Nothing is ever ready but what the loop does itself."""

    def select(self, timeout: float | None = None) -> list[Any]:
        return []


class SteppedLoop(asyncio.BaseEventLoop):
    """Its time stands still, except in `pass_time`. Only for programs without threads and sockets."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Selector()
        self._now = START_S
        self._tasks: list[asyncio.Task[Any]] = []
        self.problems: list[str] = []
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self._now

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.problems.append(str(context.get("exception") or context["message"]))

    def settle(self) -> None:
        """Go on until everything waits for something."""
        events._set_running_loop(self)
        try:
            while self._ready:  # type: ignore[attr-defined]
                self._run_once()  # type: ignore[attr-defined]
        finally:
            events._set_running_loop(None)

    def create_task(self, *arguments: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(*arguments, **options)
        self._tasks = [known for known in self._tasks if not known.done()]
        self._tasks.append(task)
        return task

    def start(self, coroutine: Coroutine[Any, Any, ResultT]) -> asyncio.Task[ResultT]:
        task = self.create_task(coroutine)
        self.settle()
        return task

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """In a task, as code of users is called; then go on until everything waits."""

        async def call() -> ResultT:
            return function()

        return self.start(call()).result()

    @property
    def next_timer(self) -> float | None:
        """When something is to go on because of the time."""
        times = [handle.when() for handle in self._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        return min(times, default=None)

    def pass_time(self, until: float) -> None:
        """Let everything happen that is due by then, each at its time."""
        while (at := self.next_timer) is not None and at <= until:
            self._now = max(self._now, at)
            self._run_due()
        self._now = until
        self._run_due()

    def _run_due(self) -> None:
        events._set_running_loop(self)
        try:
            self._run_once_without_waiting()
        finally:
            events._set_running_loop(None)
        self.settle()

    def _run_once_without_waiting(self) -> None:
        self.call_soon(lambda: None)
        self._run_once()  # type: ignore[attr-defined]

    def end(self) -> None:
        """Cancel all that is left."""
        for task in self._tasks:
            task.cancel()
        self.settle()
        self.close()


def place_of(task: asyncio.Task[Any]) -> tuple[Any, ...]:
    """Where a task waits: the function and the instruction of each coroutine that awaits another one."""
    places: list[Any] = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None)
        if frame is None:
            break
        places.append((frame.f_code.co_name, frame.f_lasti))
        waiting = waiting.cr_await
    return tuple(places)


class Gates:
    """Where programs wait for what is outside of them, until an event lets them go on."""

    def __init__(self, loop: SteppedLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[str, asyncio.Future[Any]]] = []

    @property
    def closed(self) -> list[str]:
        """The names of all gates that somebody waits at, in the order in which they came."""
        return [name for name, _ in self._waiting]

    async def wait(self, name: str) -> Any:
        """Returns what `open` is given."""
        place = (name, self._loop.create_future())
        self._waiting.append(place)
        try:
            return await place[1]
        finally:
            self._waiting.remove(place)

    def open(self, name: str, result: object = None) -> None:
        """For who has waited longest at this gate."""
        next(gate for known, gate in self._waiting if known == name).set_result(result)
        self._loop.settle()
