"""A clock so cheap that every record can look at it: milliseconds, exact to some ten of them.

Compiled, it is the kernel's coarse clock, which is a quarter of the exact one's price: see `coarse_clock.pxd`.

Gains: the clock at a quarter of the price, and no call: 94 ns a record instead of 254.
To take it out: call `time.monotonic_ns` in `client/streams.py`.
"""

from __future__ import annotations

import time


def coarse_ms() -> int:
    """Only differences mean something."""
    return time.monotonic_ns() // 1_000_000
