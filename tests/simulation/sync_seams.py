"""What a simulation replaces in `kshare.sync`, and in the program that uses it: threads, locks, loops and signals.

All else is real: who runs the shared loop when, what a signal interrupts, and what is queued meanwhile.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

from kshare.installation import version
from kshare.net import handshake
from kshare.sync import consumer, loops, producer, shared_loop, signals
from tests.integration.consumer_storm import blocking_program
from tests.simulation.blocking import Killed
from tests.simulation.nested_loop import NestedLoop
from tests.simulation.threaded_processes import handler_of, main_thread, set_handler
from tests.simulation.threads import Condition, RLock, Thread, Timer, sleep

_THREADING = SimpleNamespace(
    Condition=Condition,
    RLock=RLock,
    Thread=Thread,
    Timer=Timer,
    current_thread=threading.current_thread,
    main_thread=main_thread,
)
_ASYNCIO = SimpleNamespace(**vars(asyncio))
_ASYNCIO.SelectorEventLoop = NestedLoop


def _all_tasks() -> list[asyncio.Task[Any]]:
    """In the order of their creation. Asyncio has a set, whose order depends on addresses in memory."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, NestedLoop)
    return loop.in_order(asyncio.all_tasks())


class _Tasks(list[Any]):
    """What `asyncio.all_tasks` returns, as far as it is used."""

    def __sub__(self, others: set[Any]) -> _Tasks:
        return _Tasks(task for task in self if task not in others)


_ASYNCIO.all_tasks = lambda: _Tasks(_all_tasks())
_REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (shared_loop, "asyncio", _ASYNCIO),
    (shared_loop, "threading", _THREADING),
    (consumer, "threading", _THREADING),
    (loops, "threading", _THREADING),
    (producer, "RLock", RLock),
    (signals, "threading", _THREADING),
    (signals, "_signal", SimpleNamespace(getsignal=handler_of, signal=set_handler)),
    (signals, "_NUMBERS", [int(signal.SIGINT), int(signal.SIGTERM)]),
    (handshake, "kshare_version", cache(version)),  # processes connect often, and it reads files each time
    (blocking_program, "threading", _THREADING),
    (blocking_program, "time", SimpleNamespace(sleep=sleep)),
)


def _on_unraisable(problem: Any) -> None:
    """Python only prints what a signal handler raises in a `__del__`. Nobody reads it."""
    if not isinstance(problem.exc_value, (KeyboardInterrupt, Killed)):
        sys.__unraisablehook__(problem)


@contextmanager
def sync_seams() -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, replacement in _REPLACED:
            stack.enter_context(mock.patch.object(owner, name, replacement))
        stack.enter_context(mock.patch.object(sys, "unraisablehook", _on_unraisable))
        yield
