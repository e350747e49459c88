"""The event loop's clock, cheaper than anyio's; and the time that the machine was suspended, which it doesn't count.

`anyio.current_time()` looks up the running loop at each call. This takes one or two microseconds, about twenty times
for each exchange with a broker.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

import anyio

_SAME_S = 1.0
_THROUGH_SUSPENSION: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""The system clock that keeps running while the machine is suspended, if there is one besides `time.monotonic`."""
if sys.platform == "darwin":  # `time.monotonic` stops while suspended there, and this one doesn't
    _THROUGH_SUSPENSION = time.CLOCK_MONOTONIC


def loop_clock() -> Callable[[], float]:
    """Returns a function equivalent to `anyio.current_time()`; valid for the running event loop."""
    try:
        loop_time = asyncio.get_running_loop().time
    except RuntimeError:
        return anyio.current_time
    # Trio may run as a guest in an asyncio loop: then its clock differs.
    return loop_time if abs(loop_time() - anyio.current_time()) < _SAME_S else anyio.current_time


def suspended_s() -> float:
    """How many seconds this machine has been suspended; only differences are meaningful.

    0 where the system can't tell, or where event loops count that time themselves.
    """
    if _THROUGH_SUSPENSION is None:
        return 0.0
    # In this order, a delay between the two calls makes the result smaller, so it never makes locks seem shorter.
    through = time.clock_gettime(_THROUGH_SUSPENSION)
    return through - time.monotonic()
