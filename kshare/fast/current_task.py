"""Identifies the current task: an object that is the same while one task runs, and another one in another task.

It is needed for every record. If compiled, it is the task's context (of `contextvars`), which the interpreter keeps in
a field: see `current_task.pxd`. Otherwise it is the task itself.

Gains: reads a pointer instead of calling two libraries, once per record: 94 ns per record instead of 597.
To take it out: delete the `.pxd`; the Python function works if compiled, too.
"""

from __future__ import annotations

import asyncio
import sys


def current_task() -> object:
    """Compare the result with `is`."""
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            return trio.lowlevel.current_task()
        except RuntimeError:
            pass
    return asyncio.current_task()
