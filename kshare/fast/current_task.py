"""Identifies the current task: an object that is the same while one task runs, and another one in another task.

It is needed for every record. If compiled, the task is looked up once for each of its steps, not for each record: see
`current_task.pxd`. Its context (of `contextvars`) wouldn't do: several tasks may have the same.

Gains: compares two numbers instead of calling two libraries, once per record: 94 ns per record instead of 597.
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
