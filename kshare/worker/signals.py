"""Stops a worker on SIGINT and SIGTERM, without taking away handlers that the user has installed before.

Installed before the event loop starts, so that asyncio doesn't install its own for SIGINT.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE_S = 5.0
_LAST_WORDS = b"kshare: ended by another signal, because functions go on although they were cancelled\n"
_handlers: set[Callable[[int, FrameType | None], None]] = set()
"""Those of `on_stop_signals` that are installed."""


class SignalCount:
    """Lets a signal end the process, without another word to anybody, if the second one has ended nothing.

    Functions that go on although they were cancelled can't be ended otherwise.
    """

    def __init__(self) -> None:
        self.count = 0
        self._second_at = 0.0

    def note(self, which: signal.Signals) -> None:
        self.count += 1
        now = time.monotonic()
        if self.count == 2:
            self._second_at = now
        elif self.count > 2 and now - self._second_at > _PATIENCE_S:
            os.write(2, _LAST_WORDS)
            signal.signal(which, signal.SIG_DFL)
            os.kill(os.getpid(), which)


def may_be_interrupted() -> bool:
    """Whether Ctrl-C may raise KeyboardInterrupt here: in the main thread, unless its signal is handled otherwise."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    return callable(handler) and handler not in _handlers


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

    _handlers.add(handle)
    for one in STOP_SIGNALS:
        before[one] = signal.getsignal(one)
        if before[one] is not signal.SIG_IGN:
            signal.signal(one, handle)
    try:
        yield
    finally:
        _handlers.discard(handle)
        for one, earlier in before.items():
            # None: it was installed from C, and can't be installed from here.
            if earlier is not None and signal.getsignal(one) is handle:
                signal.signal(one, earlier)
