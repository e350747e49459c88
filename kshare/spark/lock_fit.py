"""How many records fit into a lock that can't be renewed, going by how long Spark took for the last micro-batches.

Brokers before Kafka 4.2 renew nothing: what isn't accepted within the lock is given to somebody else. So a micro-batch
may take half of it, and how long one takes is made of a part that is there always and a part for each record.

Pure; times are passed in.
"""

from __future__ import annotations

FIRST = 2_000
"""Before anything is known."""
_SHARE = 0.5
"""Of the lock: the rest is for a batch that takes longer than the last ones did."""
_GROWTH = 4
_FADING = 0.5


class LockFit:
    """`bound` is the answer, as far as it is known."""

    def __init__(self) -> None:
        self.bound = FIRST
        self._rate = 0.0

    def on_batch(self, records: int, seconds: float, lock_s: float) -> None:
        """A micro-batch of so many records took so long, from the plan to the proof that it is complete."""
        if records <= 0 or seconds <= 0:
            return
        rate = records / seconds
        # A slower batch counts at once, a quicker one by and by.
        self._rate = rate if not self._rate or rate < self._rate else _mixed(self._rate, rate)
        self.bound = max(1, min(_GROWTH * self.bound, int(self._rate * lock_s * _SHARE)))


def _mixed(old: float, new: float) -> float:
    return old * _FADING + new * (1 - _FADING)
