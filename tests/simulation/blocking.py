"""Lets blocking code take part in a simulation: in a thread of its own, but never at the same time as the loop.

While the code runs, the loop stands still. While it waits for something that happens in the loop, the loop runs. So
what happens is the same each time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from functools import partial
from threading import Semaphore, Thread, local
from typing import Any, TypeVar, cast

import anyio

ResultT = TypeVar("ResultT")


class Killed(BaseException):
    """Raised in blocking code instead of what it waits for, when its task is cancelled: its process was killed."""


class BlockingCode:
    """One call. `run` and `go_on` are called in the loop's thread, `wait` in that of the code."""

    def __init__(self, function: Callable[[], Any], context: Context) -> None:
        self._function = function
        self._mine, self._loops = Semaphore(0), Semaphore(0)
        """Whose turn it is."""
        self._asked: Callable[[], Awaitable[Any]] | None = None
        self._response: Callable[[], Any] = lambda: None
        self.is_killed = False
        self.outcome: Callable[[], Any] | None = None
        """Once the code has ended: returns what it has returned, or raises what it has raised."""
        self.thread = Thread(target=context.run, args=(self._run,), name="simulated", daemon=True)
        self.thread.start()

    async def run(self) -> Any:
        """Returns what the code returns. If this task is cancelled meanwhile, the code is killed."""
        response: Callable[[], Any] = lambda: None  # noqa: E731
        while (asked := self.go_on(response)) is not None:
            try:
                response = partial(_same, await asked())
            except Exception as error:
                response = partial(_raise, error)
            except BaseException:
                self.kill()
                raise
        assert self.outcome is not None, "it has ended"
        return self.outcome()

    def go_on(self, response: Callable[[], Any]) -> Callable[[], Awaitable[Any]] | None:
        """Let the code run until it waits for something, which is returned, or ends."""
        self._response = response
        self._mine.release()
        self._loops.acquire()
        if self.outcome is not None:
            self.thread.join()
            return None
        return self._asked

    def kill(self) -> None:
        """Let the code end: from now on, it can't wait for anything."""
        self.is_killed = True
        while self.outcome is None:
            self.go_on(lambda: None)

    def wait(self, function: Callable[[], Awaitable[Any]]) -> Any:
        if self.is_killed:
            raise Killed
        self._asked = function
        self._loops.release()
        self._mine.acquire()
        if self.is_killed:
            raise Killed
        return self._response()

    def _run(self) -> None:
        self._mine.acquire()
        _local.code = self
        try:
            result = self._function()
        except BaseException as error:
            self.outcome = partial(_raise, error)
        else:
            self.outcome = lambda: result
        self._loops.release()


_local = local()
"""`code`: what the current thread runs."""


async def run_blocking(function: Callable[[], ResultT]) -> ResultT:
    """Call a function that blocks. If this task is cancelled meanwhile, the function is killed."""
    return cast("ResultT", await BlockingCode(function, copy_context()).run())


def wait_for(function: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """In blocking code: let the loop run until this function has returned."""
    return cast("ResultT", _local.code.wait(function))


def sleep(seconds: float) -> None:
    """In blocking code, in place of `time.sleep`."""
    wait_for(partial(anyio.sleep, seconds))


def _same(value: ResultT) -> ResultT:
    return value


def _raise(error: BaseException) -> None:
    raise error
