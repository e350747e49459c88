"""The event loops that threads of simulated processes run, and their connections.

The world has a loop of its own, which stands still while a thread runs. What a nested loop waits for happens there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from kshare.net.stream import Stream
from kshare.net.tcp import Network
from tests.simulation.loop import IdleSelector, Standstill, TaskWatch
from tests.simulation.network import ClientStream, Pipe, ProcessNetwork
from tests.simulation.threads import Thread, ThreadHost, current

ResultT = TypeVar("ResultT")

_AFTERLIFE_S = 60.0
_ROUNDS = 10


class LoopHost(ThreadHost, Protocol):
    """The process, as its loops see it."""

    def on_unhandled(self, what: str) -> None:
        """What asyncio logs: an error of a task or a callback that nobody has handled."""
        ...

    was_killed: bool
    watch: TaskWatch
    loops: list[NestedLoop]
    world_loop: asyncio.AbstractEventLoop


class NestedLoop(asyncio.SelectorEventLoop):
    """In place of `asyncio.SelectorEventLoop`. Any thread of its process may run it."""

    def __init__(self) -> None:
        host: Any = current().host
        self.host: LoopHost = host
        self._selector_of_thread = _Selector()
        super().__init__(self._selector_of_thread)
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.set_task_factory(self._new_task)
        self.host.loops.append(self)

    def time(self) -> float:
        return self.host.now() + self._selector_of_thread.ahead_s

    def _write_to_self(self) -> None:
        """Called by threads to wake the one that runs the loop."""
        self._selector_of_thread.wake()

    def _new_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = self.host.watch.new_task(loop, coro, **options)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.host.on_unhandled(f"{context['message']}: {context.get('exception')!r}")

    def in_order(self, tasks: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
        """As they were created."""
        return [task for task in self._tasks if task in tasks]

    def end(self) -> None:
        """Its process was killed: let its tasks end, without letting time pass for others. Blocking."""
        self._selector_of_thread.is_alone = True
        for _ in range(_ROUNDS):
            for task in [*self._tasks]:
                task.cancel()
            with suppress(Standstill):
                self.run_forever()
            if not self._tasks:
                break
        self.close()


class _Selector(IdleSelector):
    """Instead of waiting for sockets, it lets the world go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_alone = False
        """Its process was killed. Only its own time passes."""
        self.ahead_s = 0.0
        self._waiting: Thread | None = None

    def wait(self, seconds: float | None) -> None:
        if self.is_alone:
            if seconds is None or self.ahead_s > _AFTERLIFE_S:
                raise Standstill
            self.ahead_s += max(0.0, seconds)
            return
        thread = current()
        if seconds is not None and seconds <= 0:
            thread.poll()
            return
        self._waiting = thread
        try:
            thread.park(None if seconds is None else thread.host.now() + seconds)
        finally:
            self._waiting = None

    def wake(self) -> None:
        if self._waiting is not None:
            self._waiting.unpark()


class NestedNetwork(Network):
    """That of a process whose clients run in nested loops."""

    def __init__(self, network: ProcessNetwork, host: LoopHost) -> None:
        self._network = network
        self._host = host

    async def connect(self, host: str, port: int) -> Stream:
        def abandon(stream: Stream) -> None:
            self._host.spawn(stream.aclose)

        connect = partial(self._network.connect, host, port)
        stream: Any = await in_world(self._host, connect, abandon)
        return _NestedStream(stream, self._host)


class _NestedStream(Stream):
    def __init__(self, stream: ClientStream, host: LoopHost) -> None:
        self._stream = stream
        self._host = host

    def receive_now(self, buffer: memoryview) -> int | None:
        return self._stream.receive_now(buffer)

    def set_read_threshold(self, count: int) -> None:
        self._stream.set_read_threshold(count)

    def send_now(self, item: bytes | memoryview) -> memoryview:
        return self._stream.send_now(item)

    async def send(self, item: bytes | memoryview) -> None:
        rest = self.send_now(item)
        while rest:
            await self._changed(self._stream.link.up)
            rest = self.send_now(rest)
        await checkpoint()

    async def call_when_readable(self, on_ready: Callable[[], None]) -> None:
        down = self._stream.link.down
        while True:
            on_ready()
            if down.is_readable:
                await checkpoint()
            else:
                await self._changed(down)

    async def _changed(self, pipe: Pipe) -> None:
        await in_world(self._host, pipe.changed.wait)

    async def aclose(self) -> None:
        await self._stream.aclose()


async def in_world(
    host: LoopHost,
    function: Callable[[], Awaitable[ResultT]],
    abandon: Callable[[ResultT], None] = lambda _: None,
) -> ResultT:
    """In a nested loop: let the world's loop run a function. `abandon` gets a result that nobody waits for any more."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[ResultT] = loop.create_future()
    scope = anyio.CancelScope()

    def tell(result: ResultT | None, error: OSError | None) -> None:
        if not outcome.done():
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)  # type: ignore[arg-type]
        elif result is not None:
            abandon(result)

    async def run() -> None:
        result, problem = None, None
        with scope:
            try:
                result = await function()
            except OSError as error:
                problem = error
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(tell, result, problem)

    host.spawn(run)
    try:
        return await outcome
    except asyncio.CancelledError:
        host.world_loop.call_soon(scope.cancel)
        if outcome.done() and not outcome.cancelled() and outcome.exception() is None:
            abandon(outcome.result())
        raise
