"""The clock that locks are measured by: the event loop's, corrected for the time that the machine was suspended.

The loop's clock stands still while the machine sleeps, and locks go on.
"""

from __future__ import annotations

from collections.abc import Callable

from kshare.net.clock import suspended_s

_NOISE_S = 0.01
"""Of reading two clocks one after the other: less is no suspension."""


class LockClock:
    def __init__(self, now: Callable[[], float], suspended: Callable[[], float] = suspended_s) -> None:
        """`suspended` tells for how many seconds `now` stood still so far."""
        self.now = now
        self._suspended = suspended
        self._last_suspended_s = suspended()

    def stamp(self) -> float:
        """Now, on a clock that runs on while the machine is suspended."""
        return self.now() + self._suspended()

    def time_of(self, stamp: float) -> float:
        """When that was, on the clock that stands still: what lies before a suspension lies further back."""
        return stamp - self._suspended()

    def slept(self) -> float:
        """For how many seconds the machine was suspended since this was asked last; mostly 0."""
        suspended = self._suspended()
        slept = suspended - self._last_suspended_s
        if slept <= _NOISE_S:
            return 0.0
        self._last_suspended_s = suspended
        return slept
