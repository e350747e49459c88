"""The event loop's clock, asked for often; and how long the machine was suspended, which that clock doesn't count.

`anyio.current_time()` finds out at each call which loop is running: a microsecond or two, some twenty times for each
exchange with a broker.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

import anyio

_SAME_S = 1.0
_THROUGH_SUSPENSION: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""The system's clock that runs while the machine is suspended, where there is one beside `time.monotonic`."""
if sys.platform == "darwin":  # where `time.monotonic` stands still meanwhile, and this doesn't
    _THROUGH_SUSPENSION = time.CLOCK_MONOTONIC


def loop_clock() -> Callable[[], float]:
    """Gives what `anyio.current_time()` gives; good for as long as the running loop."""
    try:
        loop_time = asyncio.get_running_loop().time
    except RuntimeError:
        return anyio.current_time
    # Trio may be a guest in an asyncio loop: then its clock is another.
    return loop_time if abs(loop_time() - anyio.current_time()) < _SAME_S else anyio.current_time


def suspended_s() -> float:
    """For how many seconds this machine was suspended so far; only differences mean something.

    0 where the system can't tell, or where event loops count that time themselves.
    """
    if _THROUGH_SUSPENSION is None:
        return 0.0
    # In this order: whatever holds us up in between makes the result smaller, and locks are never taken for shorter
    # because of that.
    through = time.clock_gettime(_THROUGH_SUSPENSION)
    return through - time.monotonic()
