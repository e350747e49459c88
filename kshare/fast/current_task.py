"""Which task runs: something that is the same as long as one task runs, and another in another task.

Compiled, it is the task's context (of `contextvars`), which the interpreter has at hand, for every record asks for it:
see `current_task.pxd`. Everyone else gets the task itself.

Gains: a pointer is read where two libraries would be asked, once a record: 94 ns for it instead of 597.
To take it out: delete the `.pxd`; the plain body works compiled as well.
"""

from __future__ import annotations

import asyncio
import sys


def current_task() -> object:
    """To be compared by `is`."""
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            return trio.lowlevel.current_task()
        except RuntimeError:
            pass
    return asyncio.current_task()
