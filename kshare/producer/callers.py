"""Who calls a producer: the current task. Determined for every record, so the library is chosen once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def task_function() -> Callable[[], object]:
    """The function that returns the current task. Call this in async code."""
    try:
        is_asyncio = asyncio.current_task() is not None
    except RuntimeError:
        is_asyncio = False
    if is_asyncio:
        return asyncio.current_task
    from trio.lowlevel import current_task

    return current_task
