"""Runs copies of a worker in further threads, for Pythons without a GIL: each has an event loop and members of its own.

The first copy runs in the main thread, as usual. These follow when it is running, and stop when it stops.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import anyio

from kshare.net.running_loop import running_asyncio_loop

if TYPE_CHECKING:
    from kshare.worker.worker import Worker

log = logging.getLogger("kshare.worker")

_LOOK_S = 0.5

CallInLoop = Callable[[Callable[[], None]], object]
"""Calls a function in an event loop, from elsewhere."""


class WorkerThreads:
    """`on_failure` is called, in any thread, when one of them ends with an error."""

    def __init__(
        self,
        worker: Worker,
        count: int,
        backend: Literal["asyncio", "trio"],
        on_failure: Callable[[], None],
    ) -> None:
        self._threads = [_WorkerThread(worker, number + 2, backend, on_failure) for number in range(count)]

    @property
    def workers(self) -> list[Worker]:
        """The copies."""
        return [thread.worker for thread in self._threads]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """As `Worker.stop`: the second time, handlers are cancelled."""
        for thread in self._threads:
            thread.stop()

    def end(self) -> None:
        """Stop them, and wait until all have ended. Raises the first error."""
        started = [thread for thread in self._threads if thread.ident is not None]
        for thread in started:
            thread.stop_once()
        for thread in started:
            while thread.is_alive():
                thread.join(_LOOK_S)  # not for ever: on Windows, signal handlers run only in between
        for thread in started:
            if thread.error is not None:
                raise thread.error


class _WorkerThread(threading.Thread):
    def __init__(
        self,
        worker: Worker,
        number: int,
        backend: Literal["asyncio", "trio"],
        on_failure: Callable[[], None],
    ) -> None:
        super().__init__(name=f"kshare worker {number}")
        self.error: BaseException | None = None
        self.worker = copy.copy(worker)
        self.worker.http = self.worker.announce = None  # the first one has it
        self._backend = backend
        self._on_failure = on_failure
        self._call: CallInLoop | None = None
        self._is_told_to_stop = False  # Thread has a private `_is_stopped` itself

    def run(self) -> None:
        try:
            anyio.run(self._serve, backend=self._backend)
        except BaseException as error:
            log.error("%s failed: %s", self.name, error)
            self.error = error
            self._on_failure()

    async def _serve(self) -> None:
        self._call = caller_in_this_loop()
        if not self._is_told_to_stop:
            await self.worker.serve()

    def stop(self) -> None:
        self._is_told_to_stop = True
        if self._call is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._call(self.worker.stop)

    def stop_once(self) -> None:
        """Unless it was stopped already: the second time would cancel its handlers."""
        if not self._is_told_to_stop:
            self.stop()


class LoopOfWorker:
    """The running event loop: lets others call functions in it, from any thread."""

    def __init__(self) -> None:
        self._call = caller_in_this_loop()
        self._thread = threading.get_ident()

    def call(self, function: Callable[[], None]) -> None:
        """At once if this is its thread, otherwise soon."""
        if threading.get_ident() == self._thread:
            function()
            return
        with suppress(RuntimeError):  # the loop has ended
            self._call(function)


def caller_in_this_loop() -> CallInLoop:
    """A function that other threads, and signal handlers, can call to call another one in this event loop."""
    loop = running_asyncio_loop()
    if loop is not None:
        return loop.call_soon_threadsafe
    import trio

    return trio.lowlevel.current_trio_token().run_sync_soon
