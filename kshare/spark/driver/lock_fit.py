"""How many records a micro-batch may have if locks can't be renewed, from the durations of the last ones.

Brokers before Kafka 4.2 don't renew locks: records that aren't accepted within the lock are redelivered. So a
micro-batch should take at most half of the lock; its duration has a constant part and a part per record.

Never reads a clock; times are passed in.
"""

from __future__ import annotations

INITIAL_RECORDS = 2_000
"""The bound before the first measurement."""
_SHARE = 0.5
"""Fraction of the lock: the rest is for a batch that takes longer than the last ones."""
_GROWTH = 4
_FADING = 0.5


class LockFit:
    """`bound` is the current estimate, in records."""

    def __init__(self) -> None:
        self.bound = INITIAL_RECORDS
        self._rate = 0.0

    def on_batch(self, records: int, seconds: float, lock_s: float) -> None:
        """A micro-batch of `records` took `seconds`, from its planning until Spark proved it complete."""
        if records <= 0 or seconds <= 0:
            return
        rate = records / seconds
        # A slower batch counts at once, a faster one gradually.
        if not self._rate or rate < self._rate:
            self._rate = rate
        else:
            self._rate = self._rate * _FADING + rate * (1 - _FADING)
        self.bound = max(1, min(_GROWTH * self.bound, int(self._rate * lock_s * _SHARE)))
