"""How fast the user's code gets through records, and how many are worth holding for it.

Whoever holds more than it gets through soon keeps records from the group's other consumers and burns their locks;
whoever holds too few waits for the network between them. So as many are held as the user gets through in `HORIZON_S`:

    event                      | what is learnt
    ---------------------------+------------------------------------------------------------------
    a batch is asked for       | the one before has been gone through since it was handed out
    none is there              | nothing, from here to the next hand-out: the user waits for us
    nothing is known yet       | begin with `FIRST`, at most four times as many each time: a slow
                               | handler is found out before it sits on thousands
    a session was lost         | begin with `FIRST` again: each loss costs all that is held a delivery,
                               | and what is lost before anybody saw it too often is archived

Decides how many records to hold and how many go by in a time. Never looks at a clock; times are passed in.
"""

from __future__ import annotations

import math

HORIZON_S = 0.25
"""Two fetches' worth: one that is worked on, and one that is on its way."""
FIRST = 16
WORTHWHILE = 4000
"""So many records are worth a fetch, however many are held: who waits for room for more leaves the broker idle."""
_GROWTH = 4
_MEMORY_S = 1.0
"""What lies back so many seconds of work counts a third."""


class Pace:
    """`most` is the user's own limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.target = min(FIRST, most)
        """How many records to hold at once."""
        self._records = 0.0
        self._seconds = 0.0
        self._in_hand = 0
        self._since = 0.0

    @property
    def rate(self) -> float:
        """Records a second of the user's time; 0 if nothing is known."""
        return self._records / self._seconds if self._seconds else 0.0

    @property
    def few(self) -> int:
        """With no more than so many undecided it is worth a fetch: room for half of the target, or for `WORTHWHILE`."""
        return max(self.target // 2, self.target - WORTHWHILE)

    @property
    def handed_at(self) -> float:
        """When a batch reached the user last."""
        return self._since

    def on_asked(self, now: float) -> None:
        """The user wants the next batch: what was handed out before is gone through."""
        if not self._in_hand:
            return
        # Two readings of a clock may be equal; the work between them took some time nevertheless.
        elapsed = max(now - self._since, 1e-6)
        fading = math.exp(-elapsed / _MEMORY_S)
        self._records = self._records * fading + self._in_hand
        self._seconds = self._seconds * fading + elapsed
        self._in_hand = 0
        self.target = max(1, min(self.most, _GROWTH * self.target, round(self.rate * HORIZON_S)))

    def on_lost(self) -> None:
        """All that was held went back, a delivery older."""
        self.target = min(FIRST, self.most)
        self._in_hand = 0

    def on_handed(self, records: int, now: float) -> None:
        """A batch reaches the user."""
        self._in_hand = records
        self._since = now

    def wants(self, undecided: int, *, is_waiting: bool) -> bool:
        """Whether to fetch: there is room enough, or the user has come to its end."""
        return (is_waiting or undecided <= self.few) and undecided < self.most

    def room(self, undecided: int, sources: int, *, is_waiting: bool) -> int:
        """How many records to ask one of so many brokers for; who waits has come to the end of what it holds."""
        ahead = 0 if is_waiting else undecided
        return max(1, min(self.target - ahead, self.most - undecided) // max(1, sources))

    def within(self, seconds: float) -> int:
        """How many records go by in this time, 1 at least."""
        return max(1, round(self.rate * seconds))
