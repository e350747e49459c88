"""Who calls a producer: the current task. Determined for every record, so the library is chosen once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kshare.net.running_loop import running_asyncio_loop


def task_function() -> Callable[[], object]:
    """The function that returns the current task. Call this in async code."""
    if running_asyncio_loop() is not None:
        return asyncio.current_task
    from trio.lowlevel import current_task

    return current_task
