"""Values of the last minute: how many there were, their sum, mean and maximum; as Kafka's clients compute them.

There are two windows of 30 seconds, the current one and the one before. A window whose values are older than both is
forgotten. Java adds a whole window to the time by which it divides a rate while there is none, so that a single value
at the start isn't a high rate: rates here do the same, to be comparable.
"""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_WINDOW_S = 30.0


class _Window(NamedTuple):
    start: float
    last: float
    values: int
    total: float
    highest: float


class Sampled:
    """One kind of value. `total` is the sum of all values so far and `count` their number, not only of the last minute.

    The fields of the current window are those of the object itself: `record` is called several times for each request.
    """

    __slots__ = (
        "_count",
        "_ends",
        "_highest",
        "_last",
        "_past",
        "_previous",
        "_start",
        "_total",
        "_window_s",
    )
    _start: float
    _last: float
    _ends: float
    _count: int
    _total: float
    _highest: float

    def __init__(self, now: float, window_s: float = DEFAULT_WINDOW_S) -> None:
        self._window_s = window_s
        self._previous: _Window | None = None
        self._past = (0, 0.0)
        """Count and total of all windows before the current one."""
        self._begin(now)

    def record(self, value: float, now: float) -> None:
        if now >= self._ends:
            self._previous = self._window()
            self._past = self.count, self.total
            self._begin(now)
        self._last = now
        self._count += 1
        self._total += value
        if value > self._highest:  # faster than max()
            self._highest = value

    @property
    def count(self) -> int:
        return self._past[0] + self._count

    @property
    def total(self) -> float:
        return self._past[1] + self._total

    @property
    def last_at(self) -> float:
        """When the last value was recorded, or when counting began."""
        return self._last

    def rate(self, now: float) -> float:
        """The sum of the values for each second."""
        return sum(window.total for window in self._recent(now)) / self._elapsed(now)

    def frequency(self, now: float) -> float:
        """The number of values for each second."""
        return sum(window.values for window in self._recent(now)) / self._elapsed(now)

    def mean(self, now: float) -> float | None:
        """None without values."""
        recent = self._recent(now)
        count = sum(window.values for window in recent)
        return sum(window.total for window in recent) / count if count else None

    def highest(self, now: float) -> float | None:
        """None without values."""
        return max((window.highest for window in self._recent(now) if window.values), default=None)

    def _begin(self, now: float) -> None:
        self._start = self._last = now
        self._ends = now + self._window_s
        self._count = 0
        self._total = 0.0
        self._highest = float("-inf")

    def _window(self) -> _Window:
        return _Window(self._start, self._last, self._count, self._total, self._highest)

    def _recent(self, now: float) -> list[_Window]:
        windows = [self._window()] if self._previous is None else [self._previous, self._window()]
        return [window for window in windows if now - window.last < 2 * self._window_s]

    def _elapsed(self, now: float) -> float:
        """The seconds by which rates are divided."""
        recent = self._recent(now)
        elapsed = now - recent[0].start if recent else 0.0
        return elapsed if elapsed >= self._window_s else elapsed + self._window_s
