"""Stops a worker on SIGINT and SIGTERM, without taking away handlers that the user has installed before.

Installed before the event loop starts, so that asyncio doesn't install its own for SIGINT.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from kshare.worker.functions.interrupts import STOP_SIGNALS, own_handlers

_PATIENCE_S = 5.0
_LAST_WORDS = b"kshare: ended by another signal, because functions continue although they were cancelled\n"


class SignalCount:
    """Lets a signal end the process, without another word to anybody, if a second stop has ended nothing.

    Functions that go on although they were cancelled can't be ended otherwise.
    """

    def __init__(self) -> None:
        self.count = 0
        self._second_at = 0.0

    def note(self, which: signal.Signals, stops: int) -> None:
        """`stops`: how often this signal tells the worker to stop."""
        now = time.monotonic()
        if self.count >= 2 and now - self._second_at > _PATIENCE_S:
            _end_process(which)
        if self.count < 2 <= self.count + stops:
            self._second_at = now
        self.count += stops


def _end_process(which: signal.Signals) -> None:
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:  # whoever reads it may have stopped
            os.write(2, _LAST_WORDS)
    with suppress(OSError, ValueError):
        signal.signal(which, signal.SIG_DFL)
        os.kill(os.getpid(), which)
    os._exit(128 + which)  # the first process of a container can't be ended by its own signals


@contextmanager
def on_stop_signals(act: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `act` in the main thread for each signal, and afterwards the handler that was installed before.

    Does nothing in other threads, which can't handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        act(signal.Signals(number))
        earlier = before[signal.Signals(number)]
        if callable(earlier) and earlier is not signal.default_int_handler:
            earlier(number, frame)

    own_handlers.add(handle)
    for number in STOP_SIGNALS:
        before[number] = signal.getsignal(number)
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield
    finally:
        own_handlers.discard(handle)
        for number, earlier in before.items():
            # None: it was installed from C, and can't be installed from here.
            if earlier is not None and signal.getsignal(number) is handle:
                signal.signal(number, earlier)
