"""Tells which cancel scope the current task is in, so that a scope that was left open is noticed.

There is no public way to ask for it, except to open a scope and to close it again. If the libraries change, nothing is
noticed any more: a test of the worker fails then.

Gains: reads an attribute for each record, instead of opening and closing a scope: 0.1 µs instead of 4.
To take it out: enter a scope around each call, and see whether leaving it raises RuntimeError.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable


def innermost_scope() -> Callable[[], object]:
    """A function for the current task: compare its results with `is`."""
    try:
        trio = sys.modules.get("trio")
        if trio is not None:
            try:
                task = trio.lowlevel.current_task()
            except RuntimeError:
                pass
            else:
                return lambda: task._cancel_status
        from anyio._backends._asyncio import _task_states

        state = _task_states[asyncio.current_task()]  # type: ignore[index]
        return lambda: state.cancel_scope
    except (ImportError, AttributeError, LookupError, RuntimeError):
        return lambda: None
