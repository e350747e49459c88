"""The in-flight window: from the share-partition's start offset (SPSO) to its end offset (SPEO).

Records that were acquired together are one entry with one Delivery. When their states differ, the entry is split: each
record gets its own Delivery. `share_partition` decides on members' rights and limits.

    start                                        end
      |  batch, whole   | batch, split: . . . .  |  never acquired
      |  [ acquired 1 ] | [ ok . ok x ok ]       |

Before the start, all records are settled; after the end, all are available. Offsets between two batches (where the log
has no records) count as settled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from kshare.broker.shares.delivery import Delivery, RecordState

DeliveryRun = tuple[int, int, Delivery]
"""First offset, last offset, and the state of all of them."""


class InFlightBatch:
    """Records that were acquired together."""

    __slots__ = ("first", "last", "records", "whole")

    def __init__(self, first: int, last: int, whole: Delivery) -> None:
        self.first = first
        self.last = last
        self.whole = whole
        self.records: list[Delivery] | None = None
        """One for each record if they differ. Then `whole` isn't used."""

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def split(self) -> list[Delivery]:
        if self.records is None:
            self.records = [self.whole.copy() for _ in range(self.size)]
        return self.records

    def runs(self) -> Iterator[DeliveryRun]:
        """The deliveries of the batch: one for the whole batch, or one for each record if it is split."""
        if self.records is None:
            yield self.first, self.last, self.whole
        else:
            for offset, delivery in enumerate(self.records, start=self.first):
                yield offset, offset, delivery

    def runs_between(self, first: int, last: int) -> Iterator[DeliveryRun]:
        """The runs with offsets from `first` to `last`."""
        if self.records is None:
            if first <= self.last and last >= self.first:
                yield self.first, self.last, self.whole
        else:
            for offset in range(max(first, self.first), min(last, self.last) + 1):
                yield offset, offset, self.records[offset - self.first]


class Window:
    """Batches in the order of their offsets."""

    def __init__(self, start: int) -> None:
        self.start = start
        """SPSO: the first offset that isn't settled."""
        self.end = start
        """One after the last offset in flight (SPEO is the offset before)."""
        self.batches: list[InFlightBatch] = []
        self._firsts: list[int] = []

    @property
    def count(self) -> int:
        """The number of offsets in the window, including settled ones: the in-flight limit applies to it."""
        return self.end - self.start

    def add(self, batch: InFlightBatch) -> None:
        index = bisect_right(self._firsts, batch.first)
        self.batches.insert(index, batch)
        self._firsts.insert(index, batch.first)
        if index == 0 and self.start < batch.first:
            self.start = batch.first
        self.end = max(self.end, batch.last + 1)

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches with offsets from `first` to `last`."""
        begin = max(bisect_right(self._firsts, first) - 1, 0)
        if self.batches and self.batches[begin].last < first:
            begin += 1
        return self.batches[begin : bisect_right(self._firsts, last)]

    def knows_before(self, offset: int) -> bool:
        """Whether a batch begins at or before an offset."""
        return bool(self._firsts) and self._firsts[0] <= offset

    def runs(self) -> Iterator[DeliveryRun]:
        for batch in self.batches:
            yield from batch.runs()

    def next_available(self) -> int:
        """The start of the next fetch: the first available offset, in the window or after it."""
        start, available = self.start, RecordState.AVAILABLE
        for batch in self.batches:
            if batch.records is None:
                if batch.whole.state is available and batch.last >= start:
                    return max(batch.first, start)
                continue
            for offset, delivery in enumerate(batch.records, start=batch.first):
                if delivery.state is available and offset >= start:
                    return offset
        return self.end

    def settled_count(self) -> int:
        """The number of records in the window that need no further delivery."""
        return sum(
            last - max(first, self.start) + 1
            for first, last, delivery in self.runs()
            if delivery.state.is_final and last >= self.start
        )

    def advance(self) -> None:
        """Move the start past all settled records, and drop these."""
        while self.batches:
            batch = self.batches[0]
            first_open = next(
                (first for first, last, delivery in batch.runs() if not delivery.state.is_final), None
            )
            if first_open is not None:
                self.start = max(self.start, first_open)
                return
            self.start = max(self.start, batch.last + 1)
            del self.batches[0], self._firsts[0]
        self.start = self.end = max(self.start, self.end)

    def reset(self, start: int) -> None:
        """Clear the window and start at this offset."""
        self.start = self.end = start
        self.batches.clear()
        self._firsts.clear()
