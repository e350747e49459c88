"""Adaptive concurrency: finds how many records to process at once. Pure.

Each second it looks at what was achieved. While all slots are busy and more of them bring more, it takes more. When
more of them bring nothing, or many runs fail, it takes back a part. So it stays near the number at which throughput
levels off, and follows when that changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from kshare.options.checks import require_whole
from kshare.options.mistakes import Mistakes

STEP_S = 1.0
_GROWTH = 1.25
_RETREAT = 0.8
_GAIN = 1.03
"""By how much throughput must have grown for further growth to be worth it."""
_MOST_FAILING = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """In place of a fixed concurrency: between these bounds."""

    least: int = 1
    """The smallest number of records to process at once."""
    most: int = 100
    """The largest number of records to process at once."""

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        for name in ("least", "most"):
            with mistakes:
                require_whole(name, getattr(self, name), 1, 100_000)
        if not mistakes and self.least > self.most:
            mistakes.add(f"least must not be larger than most, not {self.least} and {self.most}")
        mistakes.raise_all()


def check_concurrency(concurrency: object) -> None:
    """Raises ConfigError."""
    if not isinstance(concurrency, Adaptive):
        require_whole("concurrency", concurrency, 1, 1_000_000)


class AdaptiveLimit:
    """`limit` is how many records may be processed at once. Totals are the caller's running sums."""

    def __init__(self, settings: Adaptive) -> None:
        self.settings = settings
        self.limit = min(settings.most, max(settings.least, 4))
        self._at: float | None = None
        self._done = 0
        self._failed = 0
        self._rate = 0.0
        """The throughput before the last step."""
        self._has_grown = False

    def observe(self, now: float, done: int, failed: int, busy: int) -> None:
        """Call it often; it acts once each interval."""
        if self._at is None:
            self._at, self._done, self._failed = now, done, failed
        elapsed = now - self._at
        if elapsed < STEP_S:
            return
        rate = (done - self._done) / elapsed
        failing = failed - self._failed
        runs = done - self._done + failing
        self._at, self._done, self._failed = now, done, failed
        if runs and failing > _MOST_FAILING * runs:
            self._step(self.limit * _RETREAT, rate)
        elif busy < self.limit:
            self._rate, self._has_grown = rate, False  # there isn't enough to do
        elif self._has_grown and rate < self._rate * _GAIN:
            self._step(self.limit / _GROWTH, rate)
        else:
            before = self.limit
            self._step(max(before + 1, before * _GROWTH), rate)
            self._has_grown = self.limit > before

    def _step(self, limit: float, rate: float) -> None:
        self.limit = min(self.settings.most, max(self.settings.least, int(limit)))
        self._rate, self._has_grown = rate, False
