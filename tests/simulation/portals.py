"""The portals of blocking code into event loops, in a simulation: all of them lead into its only loop.

They take the place of `anyio.from_thread.start_blocking_portal`, which starts another loop in another thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint

from tests.simulation.blocking import wait_for

ResultT = TypeVar("ResultT")

portal_tasks: ContextVar[TaskGroup] = ContextVar("tasks of portals")
"""Those of the current process: they end with it."""


class _Future(Future[Any]):
    """The result of a call. To wait for it is to let the loop run."""

    def __init__(self) -> None:
        super().__init__()
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            wait_for(self.ended.wait)
        return super().result(0)

    def cancel(self) -> bool:
        if self.done():
            return False
        wait_for(self._cancel)
        return True

    async def _cancel(self) -> None:
        self.scope.cancel()
        await checkpoint()


class SimulatedPortal:
    """What the product uses of anyio's `BlockingPortal`."""

    def __init__(self) -> None:
        self._stopped, self._ended = anyio.Event(), anyio.Event()
        self._is_hasty = False
        self._tasks: TaskGroup

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        async with anyio.create_task_group() as self._tasks:
            task_status.started()
            await self._stopped.wait()
            if self._is_hasty:
                self._tasks.cancel_scope.cancel()
        self._ended.set()

    async def stop(self, cancel_remaining: bool = False) -> None:
        self._is_hasty = self._is_hasty or cancel_remaining
        self._stopped.set()

    async def close(self, cancel_remaining: bool) -> None:
        """Stop, and wait until all tasks have ended."""
        await self.stop(cancel_remaining)
        await self._ended.wait()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.start_task_soon(function, *arguments).result()

    def start_task_soon(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        async def start() -> _Future:
            future = _Future()
            self._tasks.start_soon(_run, function, arguments, future)
            await checkpoint()
            return future

        return wait_for(start)

    def start_task(self, function: Callable[..., Awaitable[Any]]) -> tuple[Future[Any], Any]:
        """Returns when the task says that it has started."""

        async def start() -> tuple[Future[Any], Any]:
            future = _Future()

            async def task(*, task_status: TaskStatus[Any]) -> None:
                await _run(partial(function, task_status=task_status), (), future)

            try:
                return future, await self._tasks.start(task)
            except RuntimeError:  # it has ended before
                if future.done() and (error := future.exception(0)) is not None:
                    raise error from None
                raise

        return wait_for(start)

    def wrap_async_context_manager(
        self, manager: AbstractAsyncContextManager[ResultT]
    ) -> AbstractContextManager[ResultT]:
        return self._wrapped(manager)

    @contextmanager
    def _wrapped(self, manager: AbstractAsyncContextManager[ResultT]) -> Iterator[ResultT]:
        """It is entered and left in one task, as scopes have to be."""

        async def hold(*, task_status: TaskStatus[tuple[ResultT, anyio.Event]]) -> None:
            async with manager as value:
                left = anyio.Event()
                task_status.started((value, left))
                await left.wait()

        future, (value, left) = self.start_task(hold)
        try:
            yield value
        except GeneratorExit:  # as in `start_portal`
            raise
        except BaseException:
            self.call(left.set)
            raise
        else:
            self.call(left.set)
            future.result()


async def _run(function: Callable[..., Any], arguments: tuple[Any, ...], future: _Future) -> None:
    try:
        with future.scope:
            result = function(*arguments)
            if isawaitable(result):
                result = await result
            future.set_result(result)
    except Exception as error:
        future.set_exception(error)
    finally:
        if not future.done():
            Future.cancel(future)
        future.ended.set()


@contextmanager
def start_portal(backend: str = "", *, name: str = "") -> Iterator[SimulatedPortal]:
    """In place of `start_blocking_portal`."""

    async def start() -> SimulatedPortal:
        portal = SimulatedPortal()
        await portal_tasks.get().start(portal.serve)
        return portal

    portal = wait_for(start)
    try:
        yield portal
    except GeneratorExit:  # its process was killed, and this is garbage
        raise
    except BaseException:
        wait_for(partial(portal.close, True))
        raise
    else:
        wait_for(partial(portal.close, False))
