"""A pytest plugin that ends every test at its deadline, wherever it hangs. The deadline is pytest-timeout's.

There are three steps, each for tests that the previous one can't end:

    at nine tenths of the time    an async test is cancelled inside its event loop
    at the deadline               pytest-timeout's signal raises in the main thread
    a grace period later          the stacks of all threads are printed and the process is ended

The signal alone isn't enough: anyio runs trio's loop in pieces for which the main thread waits, so a test that was
interrupted there still hangs when its loop is closed, and by then pytest-timeout's timer is off. pytest-xdist replaces
a worker that was ended by a new one, which continues with the remaining tests; the test is reported as failed.
"""

from __future__ import annotations

import faulthandler
import functools
import inspect
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import anyio
import pytest

_CANCELLED_AT = 0.9
"""The fraction of its time after which an async test is cancelled."""
_GRACE = 0.2
"""The fraction of its time that a test gets for cleaning up after its deadline."""
_SHORTEST_GRACE_S = 2.0
_LAST_RESORT_S = 2.0
"""How much later the process is ended by C code, in case that another thread holds the GIL."""
_BEFORE_EXIT_S = 120.0
"""How long all functions in `before_exit` may take together."""
_EXIT_CODE = 1

_CLOCK = pytest.StashKey["Clock"]()

before_exit: list[Callable[[pytest.Item], None]] = []
"""Functions that are called, in a thread, before a process is ended."""


class Clock:
    """The deadlines of one test."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        """The settings of pytest-timeout."""
        self.start()

    def start(self) -> None:
        limit = self.settings.timeout
        self.cancelled_at = time.monotonic() + _CANCELLED_AT * limit
        self.grace_s = max(_SHORTEST_GRACE_S, _GRACE * limit)


class Deadlines:
    """Ends the process of a test that neither cancelling nor a signal could end."""

    def __init__(self) -> None:
        # A copy: while a test runs, pytest captures what is written to the original.
        self._stderr = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)
        self._timer: threading.Timer | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> None:
        clock = item.stash[_CLOCK] = Clock(settings)
        self.disarm()
        limit = settings.timeout + clock.grace_s
        self._timer = threading.Timer(limit, self._end, [item, limit])
        self._timer.daemon = True
        self._timer.start()
        faulthandler.dump_traceback_later(limit + _LAST_RESORT_S, exit=True, file=self._stderr)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            self.disarm()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Runs before anyio's hook, which checks whether the test function is async."""
        clock = pyfuncitem.stash.get(_CLOCK, None)
        if clock is not None:
            within = functools.partial(_within, pyfuncitem.nodeid, clock)
            properties = getattr(pyfuncitem.obj, "hypothesis", None)
            test = _own_test(pyfuncitem.obj if properties is None else properties.inner_test)
            if not inspect.iscoroutinefunction(test):
                pass
            elif properties is None:
                pyfuncitem.obj = within(test)
            else:
                properties.inner_test = within(test)
        return (yield)

    def pytest_enter_pdb(self) -> None:
        """No deadline while debugging."""
        self.disarm()

    def pytest_unconfigure(self) -> None:
        self.disarm()
        os.close(self._stderr)

    def disarm(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, item: pytest.Item, after: float) -> None:
        message = f"\n{item.nodeid} didn't end within {after:g} s, including cleanup: its process is ended.\n"
        os.write(self._stderr, message.encode())
        faulthandler.dump_traceback(file=self._stderr)
        faulthandler.dump_traceback_later(_BEFORE_EXIT_S, exit=True, file=self._stderr)
        for call in before_exit:
            call(item)
        os._exit(_EXIT_CODE)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Deadlines(), "deadlines")


def start_again(item: pytest.Item) -> None:
    """Restart the deadlines, for a test that is run a second time."""
    clock = item.stash.get(_CLOCK, None)
    if clock is not None:
        item.config.pluginmanager.hook.pytest_timeout_set_timer(item=item, settings=clock.settings)


def _within(
    name: str, clock: Clock, test: Callable[..., Coroutine[Any, Any, None]]
) -> Callable[..., Coroutine[Any, Any, None]]:
    """A wrapper of the test that cancels it shortly before its deadline."""

    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        place = ""
        with anyio.move_on_after(clock.cancelled_at - time.monotonic()) as scope:
            try:
                await test(*args, **kwargs)
            except anyio.get_cancelled_exc_class() as cancelled:
                place = "".join(traceback.format_tb(cancelled.__traceback__))
                raise
        if scope.cancelled_caught:
            pytest.fail(
                f"{name} didn't end within its deadline and was cancelled. It was here:\n{place}",
                pytrace=False,
            )

    run._own_test = test  # type: ignore[attr-defined]
    return run


def _own_test(test: Any) -> Any:
    """The test without the wrappers of anyio and ours. Hypothesis has one inner function for all parameters."""
    while (inner := getattr(test, "_anyio_original_func", getattr(test, "_own_test", None))) is not None:
        test = inner
    return test
