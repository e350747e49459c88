"""The position in one partition while reading ranges: what to fetch next, and which fetched records are wanted.

    encountered                           | result
    --------------------------------------+------------------------------------------------------------
    a batch within ranges                 | its records in these ranges are wanted
    a batch between ranges, or not for    | skipped
    users (markers, aborted transactions) |
    a hole left by compaction             | skipped: the next batch begins after it
    such a hole for the first time        | fetched again: the hole is skipped if it is there twice
    batches that contradict each other    | CorruptBatchError
    the log starts after a range's start  | what is before the log's start is lost, and reported
    all batches of the response           | the next fetch starts after them, or at the next range

No checksum covers a batch's base offset. Damage to it leaves a hole, or makes the batch overlap another.

Sends nothing: the fetched pieces are passed in.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import takewhile

from kshare.admin.log_reading import FetchedBatches
from kshare.errors import CorruptBatchError
from kshare.protocol.records import Batch
from kshare.spark.executor.arrow import Counted

_SMALLEST, _FIRST, _LARGEST = 64 << 10, 1 << 20, 8 << 20
_BATCH_OVERHEAD = 1.2
"""Ask for this many times the estimate: responses end within a batch, and batches differ in size."""


class Cursor:
    """The position in one partition's ranges, which are ascending and don't overlap."""

    def __init__(self, ranges: Sequence[Counted], bytes_per_offset: float | None = None) -> None:
        self._ranges = ranges
        self._index = 0
        self.bytes_per_offset = bytes_per_offset
        """As measured so far, by this or an earlier cursor."""
        self.offset = ranges[0][0]
        """Where to fetch next."""
        self._read_to = -1
        """The last offset of the batches read so far."""
        self._seen: list[tuple[int, int]] = []
        """Base offsets and checksums of the last response that lacked wanted offsets."""

    @property
    def is_done(self) -> bool:
        return self._index == len(self._ranges)

    @property
    def bytes_to_fetch(self) -> int:
        """How many bytes to ask for: about the size of the ranges, since nothing after them is needed."""
        if self.bytes_per_offset is None:
            return _FIRST
        wanted = (self._ranges[-1][1] + 1 - self.offset) * self.bytes_per_offset * _BATCH_OVERHEAD
        return max(_SMALLEST, min(int(wanted), _LARGEST))

    def take(self, fetch: FetchedBatches) -> list[tuple[Batch, Sequence[Counted]]]:
        """Returns the batches with wanted records, and the ranges that overlap each; moves past them."""
        found: list[tuple[Batch, Sequence[Counted]]] = []
        first_offset, last_reached, size = None, -1, 0
        end = self._ranges[-1][1]
        # Batches that end before the requested offset are irrelevant.
        batches = [pair for pair in fetch.batches() if pair[0].last_offset >= self.offset]
        if self._leaves_out(batches):
            batches = batches[: self._seen_before(batches)]
        for index, (batch, is_for_users) in enumerate(batches):
            following = batches[index + 1][0] if index + 1 < len(batches) else None
            if batch.base_offset <= self._read_to:
                reason = f"it ends at offset {batch.last_offset}, but an earlier one ended at {self._read_to}"
                raise CorruptBatchError(batch.base_offset, 0, reason)
            first_offset = batch.base_offset if first_offset is None else first_offset
            last_reached = batch.last_offset
            size += batch.size
            if batch.base_offset > end:
                self._index = len(self._ranges)
                break
            touching = self._touching(batch.base_offset, batch.last_offset)
            if touching and is_for_users:
                # Its checksum is verified when it is read.
                found.append((batch, touching))
            elif following is None or following.base_offset != batch.last_offset + 1:
                # The checksum covers where it ends. It needn't be verified if the next batch begins right there.
                batch.check()
            self._read_to = batch.last_offset
            self._move_to(batch.last_offset + 1)
            if self.is_done:
                break
        if first_offset is not None and size:
            self.bytes_per_offset = size / max(1, last_reached + 1 - first_offset)
        return found

    def _leaves_out(self, batches: Sequence[tuple[Batch, bool]]) -> bool:
        """Whether any wanted offsets before the last batch are in no batch."""
        expected = self.offset
        for batch, _ in batches:
            if batch.base_offset > expected and self._touching(expected, batch.base_offset - 1):
                return True
            expected = batch.last_offset + 1
        return False

    def _seen_before(self, batches: Sequence[tuple[Batch, bool]]) -> int:
        """How many of these batches, counted from the first, were also in the last response."""
        before, self._seen = self._seen, [(batch.base_offset, batch.checksum) for batch, _ in batches]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, self._seen, strict=False))
        return len(list(same))

    def lose_before(self, log_start: int | None) -> list[tuple[int, int]]:
        """Skip and return the ranges that are lost because the log now starts at `log_start`, or is empty (None)."""
        if log_start is None:
            log_start = self._ranges[-1][1] + 1
        lost = [
            (max(first, self.offset), min(last, log_start - 1))
            for first, last, _ in self._ranges[self._index :]
            if first < log_start
        ]
        self._move_to(log_start)
        if not self.is_done:
            # The batch that contains the log's start still has the records before it.
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
        """Never moves back: the first batch of a response may lie before the requested offset."""
        self.offset = max(self.offset, offset)
        self._index = bisect_left(self._ranges, self.offset, lo=self._index, key=_last)
        if not self.is_done:
            self.offset = max(self.offset, self._ranges[self._index][0])


def _last(range_: Counted) -> int:
    return range_[1]
