"""Records that can't be handed out, and stay locked for a while before they are released.

A released record is acquired again at once, by this member or another one, which knows nothing of our pauses. So it
stays locked for as long as the pause lasts (`unseen_releases`). If its lock is lost before, nothing is left to release.

Decides nothing; times are passed in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from kshare.state.lease import UNDECIDED, Lease


class KeptSpans(NamedTuple):
    lease: Lease
    spans: Sequence[tuple[int, int]]
    """First and last offset of each."""
    until: float

    @property
    def held(self) -> int:
        """How many of the records are still held."""
        return sum(
            end - start
            for first, last in self.spans
            for start, end in self.lease.runs_in(first, last, UNDECIDED)
        )


class KeptRecords:
    """Those of one member."""

    def __init__(self) -> None:
        self._kept: list[KeptSpans] = []

    @property
    def held(self) -> int:
        """How many records are kept."""
        return sum(kept.held for kept in self._kept) if self._kept else 0

    @property
    def wake_at(self) -> float:
        """When the next ones are to be released."""
        return min((kept.until for kept in self._kept), default=math.inf)

    def add(self, lease: Lease, spans: Sequence[tuple[int, int]], until: float) -> None:
        self._kept.append(KeptSpans(lease, tuple(spans), until))

    def take_due(self, now: float) -> list[KeptSpans]:
        """Those to release now."""
        due = [kept for kept in self._kept if kept.until <= now]
        if due:
            self._kept = [kept for kept in self._kept if kept.until > now]
        return due

    def forget_lost(self) -> None:
        """Drop those of which nothing is held any more."""
        self._kept = [kept for kept in self._kept if kept.held]
