"""Records on their way through the query's journal, with `settle=journal`.

    state    | meaning                                             | survives a crash by
    ---------+-----------------------------------------------------+--------------------------------------------------
    waiting  | acquired, not in the journal yet                    | being released with the session and redelivered
    writing  | in a frame that is being appended                   | the journal, if the frame was written; otherwise
             |                                                     | like waiting
    staged   | in the journal, accepted, in no token yet           | the journal: a new runner stages what it has above
             |                                                     | the position of the last logged token

Staged records are handed out in the order of the journal, so a position says which of them tokens already have.
Decides nothing about acknowledgements: `Custody` does. Appends nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kshare.spark.driver.offset_sets import OffsetSet, PartitionRange
from kshare.spark.driver.range_queue import CountedRange, RangeQueue
from kshare.spark.ranges import JournalPosition

_FRAME = 5_000
"""The maximum number of ranges in a frame."""


class Staging:
    """`position`: where the journal continues after the newest token."""

    def __init__(self, position: JournalPosition, staged: Iterable[CountedRange] = ()) -> None:
        self.position = position
        self.waiting = RangeQueue()
        self.staged = RangeQueue()
        self.staged.put_back(staged)
        self._writing = OffsetSet()
        self._taken: list[CountedRange] = []
        """What the newest token has, in the order of the journal."""

    @property
    def writing(self) -> int:
        """How many offsets are in the frame that is being appended."""
        return self._writing.total

    def unknown(self, span: PartitionRange) -> list[PartitionRange]:
        """The offsets of this range that are in none of the states."""
        parts = [span]
        for known in (self.waiting.offsets, self._writing, self.staged.offsets):
            parts = [found for part in parts for found in known.outside(part)]
        return parts

    def next_frame(self) -> list[CountedRange]:
        """What to append to the journal next, in the order of topic id, partition and offset."""
        frame: list[CountedRange] = []
        while len(frame) < _FRAME and (range_ := self.waiting.take_first()):
            frame.append(range_)
            self._writing.add(range_.span)
        return sorted(frame)

    def appended(self, frame: Iterable[CountedRange]) -> None:
        """This frame is in the journal."""
        for range_ in frame:
            self._writing.remove(range_.span)
            self.staged.add(*range_)

    def take(self, limit: int) -> list[CountedRange]:
        """The oldest staged records, for a token."""
        self._taken = [*self.staged.take(limit)]
        self._move(sum(range_.span.size for range_ in self._taken))
        return self._taken

    def put_back(self) -> None:
        """The newest token was never logged."""
        self.staged.put_back(self._taken)
        self._move(-sum(range_.span.size for range_ in self._taken))
        self._taken = []

    def _move(self, records: int) -> None:
        self.position = replace(self.position, taken=self.position.taken + records)
