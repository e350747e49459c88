"""Interrupts a thread after so many lines of `kshare.sync`, as signals and the scheduler of a system do anywhere."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from kshare import sync

_FOLDER = str(Path(sync.__file__).parent)


def light(lines: int, fire: Callable[[], None], may_fire: Callable[[], bool]) -> None:
    """`fire` is called between two lines of the current thread, and may raise; later, if `may_fire` says no."""
    left = lines

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(_FOLDER):
            return None
        if event == "line":
            left -= 1
            if left <= 0 and may_fire() and not _is_atomic(frame):
                sys.settrace(None)
                fire()
                return None
        return trace

    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(_FOLDER):
            frame.f_trace = trace
        frame = frame.f_back
    sys.settrace(trace)


def is_lit() -> bool:
    """Whether one burns in the current thread."""
    return sys.gettrace() is not None


def _is_atomic(frame: FrameType) -> bool:
    """Whether no Python code could help: where `with` has just opened a client, or it is about to be closed.

    That is so at the end of `with`, and in `__enter__` once opening has failed: `with` won't close it then.
    """
    if frame.f_code.co_qualname in ("BlockingConsumer.__exit__", "Producer.__exit__", "finish"):
        return True
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return line in ("return self", "finish(self.close)")
