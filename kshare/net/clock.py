"""The event loop's clock, asked for often.

`anyio.current_time()` finds out at each call which loop is running: a microsecond or two, some twenty times for each
exchange with a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

_SAME_S = 1.0


def loop_clock() -> Callable[[], float]:
    """Gives what `anyio.current_time()` gives; good for as long as the running loop."""
    try:
        time = asyncio.get_running_loop().time
    except RuntimeError:
        return anyio.current_time
    # Trio may be a guest in an asyncio loop: then its clock is another.
    return time if abs(time() - anyio.current_time()) < _SAME_S else anyio.current_time
