"""Where reading of one partition stands: which offsets are still to come, and which of an answer's records are wanted.

    met                                   | what follows
    --------------------------------------+------------------------------------------------------------
    a batch within ranges                 | its records in these ranges are wanted
    a batch between ranges, or not for    | passed over
    users (markers, aborted transactions) |
    a hole that compaction has left       | passed over: the next batch begins behind it
    the log's beginning behind a range    | what is before it is lost, and said to be
    all batches of the answer             | the next answer begins behind them, or at the next range

Decides that. Never asks anybody: pieces are passed in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from kshare.admin.log_reading import Piece
from kshare.protocol.records import Batch
from kshare.spark.arrow import Counted

_SMALLEST, _FIRST, _LARGEST = 64 << 10, 1 << 20, 8 << 20
_BATCH_ROOM = 1.2
"""Answers end in the middle of a batch, and batches differ: so much more is asked for than the ranges should take."""


class Cursor:
    """Of one partition's ranges, which are ascending and don't overlap."""

    def __init__(self, ranges: Sequence[Counted], bytes_per_offset: float | None = None) -> None:
        self._ranges = ranges
        self._index = 0
        self.bytes_per_offset = bytes_per_offset
        """As measured so far, or before by somebody else."""
        self.offset = ranges[0][0]
        """What to ask for next."""

    @property
    def is_done(self) -> bool:
        return self._index == len(self._ranges)

    @property
    def room(self) -> int:
        """How many bytes to ask for: about what the ranges hold, for what is behind them would be read in vain."""
        if self.bytes_per_offset is None:
            return _FIRST
        wanted = (self._ranges[-1][1] + 1 - self.offset) * self.bytes_per_offset * _BATCH_ROOM
        return max(_SMALLEST, min(int(wanted), _LARGEST))

    def take(self, piece: Piece) -> list[tuple[Batch, Sequence[Counted]]]:
        """The batches that hold wanted records, and the ranges that touch each; moves on behind them."""
        found: list[tuple[Batch, Sequence[Counted]]] = []
        begun, size = None, 0
        end = self._ranges[-1][1]
        for batch, is_for_users in piece.batches():
            begun = batch.base_offset if begun is None else begun
            size += batch.size
            if batch.base_offset > end:
                self._index = len(self._ranges)
                break
            touching = self._touching(batch.base_offset, batch.last_offset)
            if touching and is_for_users:
                found.append((batch, touching))
            self._move_to(batch.last_offset + 1)
            if self.is_done:
                break
        if begun is not None and size:
            self.bytes_per_offset = size / max(1, batch.last_offset + 1 - begun)
        return found

    def lose_before(self, log_start: int | None) -> list[tuple[int, int]]:
        """The log begins there now, or (None) nothing is left of it: what is gone. Goes on behind that."""
        if log_start is None:
            log_start = self._ranges[-1][1] + 1
        lost = [
            (max(first, self.offset), min(last, log_start - 1))
            for first, last, _ in self._ranges[self._index :]
            if first < log_start
        ]
        self._move_to(log_start)
        if not self.is_done:
            # A batch that the log's beginning lies within still has what was before it.
            first, last, count = self._ranges[self._index]
            rest = self._ranges[self._index + 1 :]
            self._ranges, self._index = [(max(first, log_start), last, count), *rest], 0
        return lost

    def _touching(self, first: int, last: int) -> Sequence[Counted]:
        low = bisect_left(self._ranges, first, lo=self._index, key=_last)
        high = low
        while high < len(self._ranges) and self._ranges[high][0] <= last:
            high += 1
        return self._ranges[low:high]

    def _move_to(self, offset: int) -> None:
        """Never back: the first batch of an answer may begin and end before what was asked for."""
        self.offset = max(self.offset, offset)
        self._index = bisect_left(self._ranges, self.offset, lo=self._index, key=_last)
        if not self.is_done:
            self.offset = max(self.offset, self._ranges[self._index][0])


def _last(one: Counted) -> int:
    return one[1]
