"""How many records a second the user's code processes, and so how many are worth holding.

Holding too many keeps records from the group's other consumers and uses up their locks; holding too few means waiting
for the network. So the target is what the user processes in `HORIZON_S`:

    event                      | effect
    ---------------------------+------------------------------------------------------------------
    a batch is asked for       | the previous one was processed in the time since it was handed out
    none is there              | time until the next one doesn't count: the user waits for us
    nothing is known yet       | start with `INITIAL_TARGET`, at most four times as many each time: a slow
                               | handler is detected before it holds thousands
    a session was lost         | start with `INITIAL_TARGET` again: each loss costs everything held a delivery,
                               | and records lost too often are archived without having been seen

Decides how many records to hold and how many are processed in a given time. Never reads a clock; times are passed in.
"""

from __future__ import annotations

import math

HORIZON_S = 0.25
"""Two fetches' worth: one being processed and one on its way."""
INITIAL_TARGET = 16
MIN_REFILL = 4000
"""A fetch for this many records is always worthwhile: waiting for room for more would leave the broker idle."""
_GROWTH = 4
_MEMORY_S = 1.0
"""Measurements from this many seconds of processing time ago count a third."""


class ProcessingRate:
    """`max_records` is the limit that the user has set."""

    def __init__(self, max_records: int) -> None:
        self.max_records = max_records
        self.target = min(INITIAL_TARGET, max_records)
        """How many records to hold at once."""
        self._records = 0.0
        self._seconds = 0.0
        self._in_progress = 0
        self._since = 0.0

    @property
    def rate(self) -> float:
        """Records per second of the user's processing time; 0 if unknown."""
        return self._records / self._seconds if self._seconds else 0.0

    @property
    def refill_at(self) -> int:
        """Fetch again with this many undecided or fewer: there is room for half the target, or for `MIN_REFILL`."""
        return max(self.target // 2, self.target - MIN_REFILL)

    @property
    def handed_out_at(self) -> float:
        """When the user last got a batch."""
        return self._since

    def on_next_requested(self, now: float) -> None:
        """The user asks for the next batch, and so has processed the last one."""
        if not self._in_progress:
            return
        # Two readings of a clock may be equal, although the processing took some time.
        elapsed = max(now - self._since, 1e-6)
        decay = math.exp(-elapsed / _MEMORY_S)
        self._records = self._records * decay + self._in_progress
        self._seconds = self._seconds * decay + elapsed
        self._in_progress = 0
        self.target = max(1, min(self.max_records, _GROWTH * self.target, round(self.rate * HORIZON_S)))

    def on_lost(self) -> None:
        """Everything held was lost, and has used up a delivery."""
        self.target = min(INITIAL_TARGET, self.max_records)
        self._in_progress = 0

    def on_handed_out(self, records: int, now: float) -> None:
        """The user gets a batch."""
        self._in_progress = records
        self._since = now

    def wants(self, undecided: int, *, is_waiting: bool) -> bool:
        """Whether to fetch: there is enough room, or the user is waiting."""
        return (is_waiting or undecided <= self.refill_at) and undecided < self.max_records

    def capacity(self, undecided: int, sources: int, *, is_waiting: bool) -> int:
        """How many records to ask one of `sources` brokers for; a waiting user has processed what is held."""
        in_progress = 0 if is_waiting else undecided
        return max(1, min(self.target - in_progress, self.max_records - undecided) // max(1, sources))

    def within(self, seconds: float) -> int:
        """How many records are processed in this time, at least 1."""
        return max(1, round(self.rate * seconds))
