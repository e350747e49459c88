"""The runner of a streaming query: runs the member in a thread, and executes Spark's calls one by one.

Spark runs one such process per query on the driver. Decides when the member starts (when Spark has passed the query's
position), and ensures that it ends with the process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

from kshare.errors import KshareError
from kshare.spark.driver.range_member import RangeMember
from kshare.spark.options import ReadOptions
from kshare.spark.ranges import RecordRange, Token

T = TypeVar("T")

_ENDING = (signal.SIGTERM, signal.SIGHUP)

_ASYNCHRONOUS = (
    "asynchronous progress tracking can't be used with kshare: records would be accepted before their offsets are in "
    "Spark's log, and a crash would lose them. Leave the option asyncProgressTrackingEnabled out"
)


class Runner:
    """All methods are called from one thread, Spark's."""

    def __init__(self, options: ReadOptions) -> None:
        self._exit_stack = ExitStack()
        self._portal = self._exit_stack.enter_context(
            start_blocking_portal("asyncio", name="kshare spark runner")
        )
        self._exit_stack.callback(self._portal.call, self._portal.stop, True)
        self._member = RangeMember(options)
        self._committed: int | None = None
        self._has_planned = False
        try:
            self._running, _ = self._portal.start_task(self._member.run)
        except BaseException:
            self._exit_stack.close()  # otherwise its thread would keep the process alive
            raise
        self._exit_stack.callback(self._leave)
        if exit_cleanly_on_signals():
            self._running.add_done_callback(self._end_process)

    def latest(self, start: Token, max_rows: int | None, *, is_certain: bool = True) -> Token | None:
        self._has_planned = True

        async def latest() -> Token | None:
            return await self._member.latest(start, max_rows, is_certain=is_certain)

        return self._call(latest)

    def read(self, start: Token, end: Token) -> tuple[RecordRange, ...]:
        """Return the ranges to read.

        Between logging a token and reading it, Spark commits the previous token. If it hasn't, it logs the token later.
        The first token has no previous one, so it can't be told whether it is logged: it counts as not logged.
        """
        is_logged = not self._has_planned or self._committed == start.batch
        if self._has_planned and not is_logged and start.batch > 0 and start != end:
            raise KshareError(_ASYNCHRONOUS)

        async def read() -> tuple[RecordRange, ...]:
            return await self._member.read(start, end, is_logged=is_logged)

        return self._call(read)

    def commit(self, end: Token) -> None:
        self._committed = end.batch

    def latest_known_token(self) -> Token | None:
        """The newest token that Spark may know of, if any: for versions of Spark that don't pass their position."""
        return self._member.latest_known_token()

    def prepare_to_drain(self) -> None:
        self._call(self._member.prepare_to_drain)

    def progress(self) -> dict[str, float | None]:
        async def progress() -> dict[str, float | None]:
            return self._member.progress()

        return self._call(progress)

    def stop(self) -> None:
        """Release what is held and leave the group. May be called more than once."""
        self._exit_stack.close()

    def _leave(self) -> None:
        self._portal.call(self._member.close)
        with suppress(KshareError):  # the last call has raised it
            self._running.result()

    def _end_process(self, _: object) -> None:
        """Don't leave the process behind: when the context is stopped, Spark may never call again.

        Spark's thread then waits in a read of its connection. Only a signal of the system ends that: measured,
        `_thread.interrupt_main`, `signal.raise_signal` and an exit of this thread leave it waiting. The connection
        can't be closed, because Spark doesn't hand it to sources.
        """
        if self._member.close_reason is not None:
            os.kill(os.getpid(), signal.SIGTERM)

    def _call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        if self._running.done():
            self._running.result()
            reason = self._member.close_reason or "it was stopped"
            raise KshareError(f"the query's member has left its group ({reason}): start the query again")
        future = self._portal.start_task_soon(function, *arguments)
        try:
            return future.result()
        finally:
            future.cancel()


def exit_cleanly_on_signals() -> bool:
    """Turns SIGTERM and SIGHUP into an exit: Spark ends runners by SIGTERM, and `stop` is called only on an exit.

    Returns False outside the main thread, where signal handlers can't be set; Spark calls this in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    for ending in _ENDING:
        signal.signal(ending, _exit)
    return True


def _exit(number: int, _: FrameType | None) -> None:
    """Only once: a second signal would interrupt the leave, and its thread would keep the process alive forever."""
    for ending in _ENDING:
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + number)
