"""An event loop that is run by the thread that waits for it, or else by a background thread.

A thread that makes a call runs the loop until the call is done. No other thread has to be woken, which would take
longer than everything else. If no thread has made a call for `AWAY_S`, the background thread runs the loop, so that
heartbeats, renewals and fetches continue; it stops as soon as a thread makes a call. If another thread runs the loop
already, or the caller is in async code itself, the thread that runs the loop executes the call, and the caller waits.

Knows nothing of consumers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from threading import get_ident
from typing import Any, Generic, Protocol, TypeVar

from kshare.errors import KshareError
from kshare.sync.signals import SignalsPutOff

log = logging.getLogger("kshare.client")

ReturnT = TypeVar("ReturnT")

AWAY_S = 0.05
"""If a thread returns sooner, the loop is free. The background thread checks at this interval whether to run it."""
_LOOKS = 50
"""After this many checks during which a thread kept running the loop, the background thread sleeps until it leaves."""
_WIND_UP_S = 5.0


class LoopClosed(Exception):
    """The loop was closed before or during the call."""


class LoopUser(Protocol):
    """Is notified when a thread starts or stops running the loop."""

    def on_taken(self) -> None:
        """A thread is about to run the loop."""
        ...

    def on_run(self) -> None:
        """Called in the loop when it starts to run, and every `AWAY_S` while the background thread runs it."""
        ...

    def on_free(self) -> None:
        """No thread runs the loop now."""
        ...


class SharedLoop:
    """Runs the loop, and notifies its listener."""

    def __init__(self, user: LoopUser) -> None:
        self._user = user
        # Its time is `time.monotonic()`, by which users without a loop read `lease_deadline`.
        self._loop = asyncio.SelectorEventLoop()
        self._loop.set_exception_handler(self._on_error)
        self._pid = os.getpid()
        self._context = _asyncio_context()
        self._mutex = threading.RLock()
        """Guards the attributes below. Reentrant, because signal handlers may call any method at any time."""
        self._changed = threading.Condition(self._mutex)
        self.runner = 0
        """The id of the thread that runs the loop; 0 if none does."""
        self._runs = 0
        """How many times a thread has started to run the loop."""
        self._driven: _Call[Any] | None = None
        """The call that the runner waits for."""
        self._wanting = 0
        """The number of threads that wait for the background thread to leave the loop."""
        self._relying = 0
        """The number of threads whose calls must be run by another thread."""
        self._waiting = 0
        """The number of threads that wait while another one runs the loop."""
        self._is_asleep = False
        """Whether the background thread must be woken when the loop is free."""
        self._error: BaseException | None = None
        """What was raised in a callback while a caller's thread ran it."""
        self._is_over = False
        self._background = threading.Thread(target=self._run_meanwhile, name="kshare client", daemon=True)
        self._background.start()

    # --- for the threads that use it

    @property
    def is_foreign(self) -> bool:
        """It was created before this process was forked, and belongs to the parent."""
        return os.getpid() != self._pid

    @property
    def is_run_here(self) -> bool:
        """Whether the caller runs inside the loop."""
        return self.runner == get_ident()

    def run(self, function: Callable[[], Coroutine[Any, Any, ReturnT]]) -> ReturnT:
        """Run a function and return its result. If a signal handler raises, the call is cancelled."""
        if self.is_foreign:
            raise KshareError(
                "this client was opened before this process was forked off: only the other process can use it; "
                "open another one here"
            )
        call = _Call(function, self)
        try:
            while not call.is_done:
                with SignalsPutOff(self._on_signal) as signals:
                    self._run_until(call, lambda: call.is_done or signals.has_noted)
            return call.result()
        except BaseException:
            call.give_up()
            raise

    def take_turn(self, function: Callable[[], None]) -> bool:
        """Call this in the loop, and run all callbacks that are due. Returns False if another thread runs the loop."""
        if self.is_foreign or _is_in_async_code():
            return False
        with SignalsPutOff(self._interrupt):
            try:
                is_ours = self._take()
                if is_ours:
                    self._loop.call_soon(function, context=self._context)
                    self._loop.stop()  # after one iteration
                    self._loop.run_forever()
                    self._raise_error()
            finally:
                self._free()
        return is_ours

    def call_soon(self, function: Callable[[], None]) -> None:
        """Schedule a call in the loop. May be called from any thread."""
        try:
            self._loop.call_soon_threadsafe(function, context=self._context)
        except RuntimeError as error:
            raise LoopClosed from error

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        """Schedule a call. Must be called in the loop."""
        self._loop.call_later(seconds, function, context=self._context)

    def close(self) -> None:
        """Cancel everything that runs in the loop, in bounded time. Pending calls raise LoopClosed."""
        if self.is_foreign:
            return
        try:
            self.run(self._wind_up)
        finally:
            with self._mutex:
                self._is_over = True
                self._changed.notify_all()
                if self.runner:
                    self._interrupt()
            try:
                self._background.join()
            finally:
                with self._mutex:
                    while self.runner:
                        self._changed.wait()
                    self._loop.close()

    # --- running

    def _run_until(self, call: _Call[Any], is_enough: Callable[[], bool]) -> None:
        """Run the loop, or wait while another thread runs it."""
        while not is_enough():
            if self._is_over:
                raise LoopClosed
            may_run = not _is_in_async_code()
            if not (may_run and self._drive(call, is_enough)):
                self._wait(call, is_enough, may_run=may_run)

    def _drive(self, call: _Call[Any], is_enough: Callable[[], bool]) -> bool:
        """Run the loop. Returns False if another thread runs it."""
        try:
            is_ours = self._take()
            if is_ours:
                self._driven = call
                self._loop.call_soon(self._user.on_run, context=self._context)
                call.start()
                while not (is_enough() or self._is_over):
                    self._loop.run_forever()
                    self._raise_error()
        finally:
            self._free()
        return is_ours

    def _on_signal(self) -> None:
        """Called in the main thread, whatever it is doing in `run`."""
        self._interrupt()
        with self._mutex:
            self._changed.notify_all()

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Asyncio only logs exceptions of callbacks. One that was thrown into the caller's thread is raised there."""
        if "handle" in context and self.runner != self._background.ident:
            self._error = context.pop("exception")  # a frame of asyncio has the context: see `kshare.errors`
            loop.stop()
        else:
            loop.default_exception_handler(context)

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # see `kshare.errors`

    def _take(self) -> bool:
        with self._mutex:
            if self.runner or self._is_over:
                return False
            self._begin_run()
            self._runs += 1
            return True

    def _begin_run(self) -> None:
        self.runner = get_ident()
        self._user.on_taken()

    def _end_run(self) -> None:
        self._user.on_free()
        self.runner, self._driven = 0, None

    def _free(self) -> None:
        """Unless another thread has taken it."""
        with self._mutex:
            if self.runner == get_ident():
                self._end_run()
                if self._is_asleep or self._waiting or self._is_over:
                    self._changed.notify_all()

    def _wait(self, call: _Call[Any], is_enough: Callable[[], bool], *, may_run: bool) -> None:
        """Wait while another thread runs the loop."""
        with self._mutex:
            self._waiting += 1
            try:
                if not may_run:
                    self._rely_on_others(call, is_enough)
                elif self.runner == self._background.ident:
                    self._want(is_enough)
                else:
                    call.start_elsewhere()
                    while self.runner and not (is_enough() or self._is_over):
                        self._changed.wait()
            finally:
                self._waiting -= 1

    def _want(self, is_enough: Callable[[], bool]) -> None:
        self._wanting += 1
        try:
            self._interrupt()
            while self.runner == self._background.ident and not is_enough():
                self._changed.wait()
        finally:
            self._wanting -= 1

    def _rely_on_others(self, call: _Call[Any], is_enough: Callable[[], bool]) -> None:
        self._relying += 1
        try:
            call.start_elsewhere()
            self._changed.notify_all()
            while not (is_enough() or self._is_over):
                self._changed.wait()
        finally:
            self._relying -= 1

    def _interrupt(self) -> None:
        """Make the runner check whether to continue. May be called from any thread and from signal handlers."""
        with suppress(RuntimeError):  # another thread has closed the loop
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _on_done(self, call: _Call[Any]) -> None:
        """Called in the loop."""
        if self._driven is call:
            self._loop.stop()
        elif self._waiting:
            with self._mutex:
                self._changed.notify_all()

    # --- the background thread

    def _run_meanwhile(self) -> None:
        runs, looks = -1, 0
        with self._mutex:
            while not self._is_over:
                looks = looks + 1 if self._runs == runs else 0
                is_due = self._relying or self._runs == runs
                runs = self._runs
                if self.runner == 0 and not self._wanting and is_due:
                    self._begin_run()
                    self._mutex.release()
                    try:
                        self._run_in_background()
                    finally:
                        self._mutex.acquire()
                        self._end_run()
                        self._changed.notify_all()
                else:
                    self._is_asleep = self.runner != 0 and looks > _LOOKS
                    self._changed.wait(None if self._is_asleep else AWAY_S)
                    self._is_asleep = False

    def _run_in_background(self) -> None:
        timer: asyncio.TimerHandle | None = None

        def verify() -> None:
            nonlocal timer
            self._user.on_run()
            timer = self._loop.call_later(AWAY_S, verify)

        first = self._loop.call_soon(verify, context=self._context)
        try:
            self._loop.run_forever()
        except BaseException as error:
            log.error("an error in the event loop of a client", exc_info=error)
        finally:
            first.cancel()
            if timer is not None:
                timer.cancel()

    # --- starting and ending

    def create_task(self, coroutine: Coroutine[Any, Any, ReturnT]) -> asyncio.Task[ReturnT]:
        return self._loop.create_task(coroutine, context=self._context.copy())

    async def _wind_up(self) -> None:
        """Cancel tasks that interrupted calls may have left."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=_WIND_UP_S)
        await self._loop.shutdown_asyncgens()


class _Call(Generic[ReturnT]):
    """A coroutine to be run in the loop, and its result."""

    __slots__ = ("_function", "_loop", "_task", "is_done", "is_started")

    def __init__(self, function: Callable[[], Coroutine[Any, Any, ReturnT]], loop: SharedLoop) -> None:
        self._function = function
        self._loop = loop
        self._task: asyncio.Task[ReturnT] | None = None
        self.is_started = False
        self.is_done = False

    def start(self) -> None:
        """Called by the thread that runs the loop."""
        if not self.is_started:
            self.is_started = True
            self._begin()

    def start_elsewhere(self) -> None:
        if not self.is_started:
            self.is_started = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        if not self.is_done:
            self._task = self._loop.create_task(self._function())
            self._task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[ReturnT]) -> None:
        self.is_done = True
        if not task.cancelled():
            task.exception()  # asyncio would log it if the caller was interrupted, and doesn't ask for the result
        self._loop._on_done(self)

    def give_up(self) -> None:
        """Its caller no longer waits for it."""
        if not self.is_done:
            with suppress(LoopClosed):
                self._loop.call_soon(self._cancel)

    def _cancel(self) -> None:
        if self._task is None:
            self.is_done = True
        else:
            self._task.cancel()

    def result(self) -> ReturnT:
        """Call it once: afterwards, nothing has the exception that is raised (see `kshare.errors`)."""
        task, self._task = self._task, None
        assert task is not None, "it is done"
        try:
            return task.result()
        except asyncio.CancelledError as error:
            raise LoopClosed from error
        finally:
            del task


def _is_in_async_code() -> bool:
    """Whether this thread runs another event loop: they can't be nested."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        return True
    lowlevel = getattr(sys.modules.get("trio"), "lowlevel", None)
    current_task = getattr(lowlevel, "current_task", None)
    if current_task is None:  # not imported, or another thread is importing it
        return False
    try:
        current_task()
    except RuntimeError:
        return False
    return True


def _asyncio_context() -> Context:
    """A context in which anyio detects asyncio, even if the consumer is opened by a trio task."""
    context = copy_context()
    sniffio = sys.modules.get("sniffio")  # anyio consults it if it is installed
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context
