"""What a program gets from outside: times, randomness and ids. A simulation replaces it, to be the same each time.

Event loops have times of their own, which timers use: see `anyio.current_time`. The others are read here.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from random import Random

_THROUGH_SUSPENSION: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""The system clock that keeps running while the machine is suspended, if there is one besides `time.monotonic`."""
if sys.platform == "darwin":  # `time.monotonic` stops while suspended there, and this one doesn't
    _THROUGH_SUSPENSION = time.CLOCK_MONOTONIC


def _suspended_s() -> float:
    if _THROUGH_SUSPENSION is None:
        return 0.0
    # In this order, a delay between the two calls makes the result smaller, so it never makes locks seem shorter.
    through = time.clock_gettime(_THROUGH_SUSPENSION)
    return through - time.monotonic()


class Surroundings:
    """The real ones."""

    wall_time: Callable[[], float] = staticmethod(time.time)
    """Returns seconds since 1970, as far as the system knows."""
    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    """Returns seconds; only differences are meaningful. Unlike a loop's time, every thread may read it."""
    suspended_s: Callable[[], float] = staticmethod(_suspended_s)
    """Returns for how many seconds this machine has been suspended, which loops don't count; only differences are
    meaningful. 0 where the system can't tell, or where loops count that time themselves."""

    def random(self) -> Random:
        """A new generator."""
        return Random()

    def random_bytes(self, count: int) -> bytes:
        """For ids that must not occur twice."""
        return os.urandom(count)


surroundings: ContextVar[Surroundings] = ContextVar("kshare surroundings", default=Surroundings())  # noqa: B039  it has no state
"""Those of the current task."""


def wall_time() -> float:
    """Seconds since 1970, as far as the system knows."""
    return surroundings.get().wall_time()


def monotonic() -> float:
    """Seconds; only differences are meaningful."""
    return surroundings.get().monotonic()


def new_random() -> Random:
    """A new generator."""
    return surroundings.get().random()


def random_bytes(count: int) -> bytes:
    """For ids that must not occur twice."""
    return surroundings.get().random_bytes(count)
