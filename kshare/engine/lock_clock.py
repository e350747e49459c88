"""The clock that locks are measured by: the event loop's, corrected for the time that the machine was suspended.

The loop's clock stops while the machine is suspended, but locks expire all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from kshare.surroundings import surroundings

_NOISE_S = 0.01
"""Differences below this come from reading two clocks one after the other."""


class LockClock:
    def __init__(self, now: Callable[[], float], suspended: Callable[[], float] | None = None) -> None:
        """`suspended` returns for how many seconds `now` has stood still so far, as far as the system knows."""
        self.now = now
        self._suspended = suspended or surroundings.get().suspended_s
        self._last_suspended_s = self._suspended()

    def stamp(self) -> float:
        """The time on a clock that also runs while the machine is suspended."""
        return self.now() + self._suspended()

    def time_of(self, stamp: float) -> float:
        """Convert a stamp to the clock that stops. A suspension since then moves it further into the past."""
        return stamp - self._suspended()

    def slept(self) -> float:
        """Return for how many seconds the machine was suspended since the last call; mostly 0."""
        suspended = self._suspended()
        slept = suspended - self._last_suspended_s
        if slept <= _NOISE_S:
            return 0.0
        self._last_suspended_s = suspended
        return slept
