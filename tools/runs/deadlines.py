"""A pytest plugin: every test is ended at its deadline, whatever it hangs in. The deadline is pytest-timeout's.

Three steps, each for what the one before can't end:

    at nine tenths of the time    an async test is cancelled inside its event loop
    at the deadline               pytest-timeout's signal raises in the main thread
    a grace period later          the stacks of all threads are printed and the process is ended

The signal alone isn't enough: anyio runs trio's loop in pieces that the main thread waits for, so a test that was
interrupted there still hangs when its loop is closed, and by then pytest-timeout's timer is off. A worker of
pytest-xdist that is ended is replaced by another, which goes on with the tests that are left; the test is reported as
failed by its name.
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
"""The part of its time after which an async test is cancelled."""
_GRACE = 0.2
"""The part of its time that a test is given to clean up after its deadline."""
_SHORTEST_GRACE_S = 2.0
_LAST_RESORT_S = 2.0
"""How much later the process is ended without Python's help: somebody may hold its lock."""
_BEFORE_EXIT_S = 120.0
"""How long all of `before_exit` may take."""
_EXIT_CODE = 1

_CLOCK = pytest.StashKey["Clock"]()

before_exit: list[Callable[[pytest.Item], None]] = []
"""Called, in a thread, before a process is ended at last."""


class Clock:
    """The time of one test."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        """pytest-timeout's."""
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
        left = settings.timeout + clock.grace_s
        self._timer = threading.Timer(left, self._end, [item, left])
        self._timer.daemon = True
        self._timer.start()
        faulthandler.dump_traceback_later(left + _LAST_RESORT_S, exit=True, file=self._stderr)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            self.disarm()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Before anyio looks at what the test function is."""
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
        """Whoever debugs takes all the time there is."""
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
        said = f"\n{item.nodeid} didn't end within {after:g} s, cleaning up included: its process is ended.\n"
        os.write(self._stderr, said.encode())
        faulthandler.dump_traceback(file=self._stderr)
        faulthandler.dump_traceback_later(_BEFORE_EXIT_S, exit=True, file=self._stderr)
        for call in before_exit:
            call(item)
        os._exit(_EXIT_CODE)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Deadlines(), "deadlines")


def start_again(item: pytest.Item) -> None:
    """A test that is run a second time has all of its time once more."""
    clock = item.stash.get(_CLOCK, None)
    if clock is not None:
        item.config.pluginmanager.hook.pytest_timeout_set_timer(item=item, settings=clock.settings)


def _within(
    name: str, clock: Clock, test: Callable[..., Coroutine[Any, Any, None]]
) -> Callable[..., Coroutine[Any, Any, None]]:
    """The same test, cancelled when its time is nearly up."""

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
    """A function of examples is one object for all parameters: without what anyio and we put around it for others."""
    while (inner := getattr(test, "_anyio_original_func", getattr(test, "_own_test", None))) is not None:
        test = inner
    return test
