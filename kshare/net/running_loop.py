"""Whether asyncio or trio runs the current task, for what anyio has no function for.

Asks asyncio: libraries that detect both, such as sniffio, aren't among kshare's requirements.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable


def running_asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """The loop of the current task if that is asyncio's. None on trio, even as a guest in an asyncio loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop if asyncio.current_task(loop) is not None else None


def running_loop() -> object | None:
    """Something that is the same for all tasks of an event loop. None outside of tasks."""
    loop = running_asyncio_loop()
    if loop is not None or "trio" not in sys.modules:
        return loop
    import trio

    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        return None


def task_function() -> Callable[[], object]:
    """The function that returns the current task, for callers that need it often. Call this in async code."""
    if running_asyncio_loop() is not None:
        return asyncio.current_task
    from trio.lowlevel import current_task

    return current_task
