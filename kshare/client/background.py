"""The background task of a consumer or producer. Any task may start it, and any task may stop it.

A task group must be left by the task that entered it, but these may be opened in one task and closed in another: by
test fixtures, exit stacks, signal handlers. So the background task belongs to no task group of the user's. With asyncio
it is an independent task; with trio it is a system task, which must not raise, so its error is kept for `join`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import copy_context

import anyio

from kshare.errors import ConsumerClosed, KshareError
from kshare.net.running_loop import running_asyncio_loop, running_loop

log = logging.getLogger("kshare.client")


class Background:
    """Runs a function with two arguments: a callback for when it has started, and an event that tells it to end."""

    def __init__(
        self,
        run: Callable[[Callable[[], None], anyio.Event], Awaitable[None]],
        on_end: Callable[[], None],
        owner: str = "consumer",
    ) -> None:
        """`on_end` is called when the function has ended, for whatever reason."""
        self.is_over = False
        self.is_started = False
        self._run = run
        self._on_end = on_end
        self._owner = owner
        self._loop: object | None = None
        self._stopping = anyio.Event()
        self._started_or_ended = anyio.Event()
        """Set when it has started, or ended before that."""
        self._ended = anyio.Event()
        self._scope = anyio.CancelScope()
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        """A reference, because asyncio keeps only weak ones."""

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set() or self.is_over

    async def start(self) -> None:
        """Return when it has started, or raise the error that prevented it. If cancelled, it has ended afterwards.

        It may have started when the caller is cancelled. Then nobody else would end it.
        """
        self._spawn()
        try:
            await self._started_or_ended.wait()
        except BaseException:
            self.stop()
            await wait_uncancelled(self._ended)
            raise
        if not self.is_started:
            self._raise()
            raise ConsumerClosed("the consumer was closed while it was being opened")

    def stop(self) -> None:
        """Ask it to end. May be called at any time, and more than once."""
        self._stopping.set()
        if not self.is_started:
            self._scope.cancel()

    async def join(self) -> None:
        """Wait until it has ended, even if cancelled. If it failed, the error is raised in the first caller only."""
        await wait_uncancelled(self._ended)
        self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # see `kshare.errors`

    def require_own_loop(self) -> None:
        """Raises KshareError in a task of another event loop, while it runs: what waits there would never be woken, and
        might wake what waits here at the wrong moment."""
        loop = running_loop()
        if loop is not None and loop is not self._loop and not self.is_over:
            raise KshareError(
                f"the {self._owner} belongs to the event loop in which it was opened, and this is another one: open "
                f"another {self._owner} here, or let that loop do it (anyio.from_thread.run, "
                "asyncio.run_coroutine_threadsafe)"
            )

    def _spawn(self) -> None:
        self._loop = running_loop()
        name = f"kshare {self._owner}"
        loop = running_asyncio_loop()
        if loop is not None:
            self._task = loop.create_task(self._main(), name=name)
            self._task.add_done_callback(self._on_done)
        else:
            import trio

            trio.lowlevel.spawn_system_task(self._main, name=name, context=copy_context())

    async def _main(self) -> None:
        try:
            with self._scope:
                await self._run(self._on_started, self._stopping)
        except anyio.get_cancelled_exc_class():  # the event loop ends
            raise
        except BaseException as error:
            self._error = _unwrapped(error)
        finally:
            self._end()

    def _on_done(self, _: asyncio.Task[None]) -> None:
        """If it was cancelled before its first step, `_main` hasn't run at all."""
        if not self.is_over:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self._started_or_ended.set()
        self._ended.set()
        self._on_end()

    def _on_started(self) -> None:
        self.is_started = True
        self._started_or_ended.set()


async def wait_uncancelled(event: anyio.Event) -> None:
    """Wait for the event even if cancelled, and raise the cancellation afterwards.

    A shield isn't enough: it stops cancellations by anyio and trio, but with asyncio, `Task.cancel` passes it, and so
    do `asyncio.timeout`, `asyncio.wait_for` and `asyncio.TaskGroup`. Another task must set the event in bounded time.
    """
    cancellation: BaseException | None = None
    with anyio.CancelScope(shield=True):
        while not event.is_set():
            try:
                await event.wait()
            except anyio.get_cancelled_exc_class() as error:
                cancellation = error
    try:
        if cancellation is not None:
            raise cancellation
    finally:
        del cancellation  # see `kshare.errors`


def _unwrapped(error: BaseException) -> BaseException:
    """The error itself, without the exception groups that task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        first, *others = error.exceptions
        for other in others:
            log.error("another error in the background of a client", exc_info=other)
        error = first
    return error
