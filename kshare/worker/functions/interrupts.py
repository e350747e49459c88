"""Ctrl-C: where it may raise KeyboardInterrupt, and where a worker has its own handler for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
own_handlers: set[Callable[[int, FrameType | None], None]] = set()
"""The signal handlers of workers that are installed."""


def may_be_interrupted() -> bool:
    """Whether Ctrl-C may raise KeyboardInterrupt here: in the main thread, unless its signal is handled otherwise."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    return callable(handler) and handler not in own_handlers
