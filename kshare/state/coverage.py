"""Which acquired offsets the batches of one response account for, and which they don't.

A checksum covers the contents of a batch, but not its base offset or length. Damage to these can only be noticed by
comparing the batch with its neighbours and with the acquired offsets.

    acquired offsets                                      | result
    ------------------------------------------------------+--------------------------------------------------
    with a record in a verified batch                     | handed out
    without one, within a verified batch                  | gap: compaction removed it
    of a control batch                                    | gap
    in a batch that is valid, but larger than the limit   | oversized
    between two verified batches                          | gap: compaction removed whole batches
    in a corrupt batch, or next to one                    | doubtful
    before the first batch or after the last              | doubtful: the response may be truncated
    all, where batches overlap or are out of order        | doubtful
    in a batch at the edge that may have moved            | doubtful, unless an earlier response had it there
    the same, with few deliveries left                    | handed out
    next to a batch at the edge that may have moved       | doubtful

The first or last batch may have moved if it extends beyond the acquired offsets on one side while offsets are missing
on its other side. Compaction causes this as well, so its records are handed out once it has come twice to the same
place (`doubted_batches`), or before they would be archived.

Nothing contradicts a wrong base offset where neighbours and acquired offsets leave room for it: if only a part of the
first or last batch was acquired and it still covers this part, or if a batch moves within the holes that compaction
left beside it.

Decides which offsets are gaps and which are doubtful, never what happens to them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kshare.errors import CorruptBatchError, OversizedBatchError
from kshare.offset_ranges import OffsetRange, ranges_within
from kshare.protocol.decompression_budget import DecompressionLimit
from kshare.protocol.record_header import CONTROL_BIT, MAX_INT64
from kshare.protocol.records import Batch, Buffer, read_batches

LARGEST_RANGE = 1 << 20
"""Offsets in an acquired range: brokers hold a few thousand in flight, so a larger one is damage."""


class RangeContents(NamedTuple):
    """What is in one acquired range."""

    batches: list[Batch]
    """Verified, in order, each with offsets of the range."""
    gaps: list[OffsetRange]
    """Offsets that have no record."""
    unverified: list[OffsetRange]
    """Offsets that may or may not have a record: nothing in the response tells."""
    moved: Sequence[OffsetRange] = ()
    """Those of `unverified` that have a record in a batch that may have moved."""
    reason: str | None = None
    """What is wrong, if anything is doubtful."""
    is_damaged: bool = False
    """Only damage explains it. Otherwise compaction may have removed these offsets."""
    oversized: Sequence[OffsetRange] = ()
    """Offsets of batches that would decompress to more than the limit."""
    oversized_reason: str = ""


class Coverage:
    """The batches of one partition in one response; nothing is read before `of` is called."""

    def __init__(
        self,
        records: Buffer | None,
        acquired: Sequence[OffsetRange],
        limit: DecompressionLimit | None = None,
        was_here: Callable[[Batch], bool] = lambda batch: False,
    ) -> None:
        """`limit`: for the decompressed size of a batch, if it isn't the default.

        `was_here`: whether an earlier response had this batch at the same offset. Called once for each batch.
        """
        self._records = records or b""
        self._limit = limit
        self._acquired = acquired
        self._was_here = was_here
        self._confirmed: dict[int, bool] = {}
        self._batches: list[Batch] | None = None
        self._bases: list[int] = []
        """Their base offsets. They ascend, unless `_disorder` says otherwise."""
        self._damage: str | None = None
        """What is wrong after the last batch that could be read."""
        self._whole: OffsetRange | None = None
        """What the batches cover, if they are contiguous, as they nearly always are."""
        self._disorder: str | None = None
        """Why no batch's base offset can be trusted."""
        self._moved: tuple[str | None, str | None] | None = None
        """The same for the first and for the last batch, once that is known."""
        self._broken: dict[int, str] = {}
        self._oversized: dict[int, str] = {}
        self._missing: dict[int, list[OffsetRange]] = {}

    def of(self, first: int, last: int, *, is_near_limit: bool = False) -> RangeContents:
        """Returns what is in an acquired range. `is_near_limit`: too few deliveries are left to wait for another."""
        batches = self._read()
        if self._whole is not None and self._whole[0] <= first and last <= self._whole[1]:
            overlapping = batches[self._index_at(first) : bisect_right(self._bases, last)]
            with suppress(CorruptBatchError):
                for batch in overlapping:
                    batch.open()
                return RangeContents(overlapping, [], [])
        return self._of_incomplete(batches, first, last, is_near_limit=is_near_limit)

    def _of_incomplete(
        self, batches: list[Batch], first: int, last: int, *, is_near_limit: bool
    ) -> RangeContents:
        """The same where some offsets have no record, or a batch is corrupt."""
        if self._disorder is not None:
            return RangeContents([], [], [(first, last)], [], self._disorder, is_damaged=True)
        moved = self._both_moved()
        found: list[Batch] = []
        gaps: list[OffsetRange] = []
        unverified: list[OffsetRange] = []
        oversized: list[OffsetRange] = []
        oversized_reason = ""
        doubted: list[OffsetRange] = []
        expected = first
        for index in range(self._index_at(first), len(batches)):
            batch = batches[index]
            start, end = batch.base_offset, batch.last_offset
            if end < first:
                continue
            if expected < start and expected <= last:
                hole = (expected, min(start - 1, last))
                if self._is_gap(index):
                    gaps.append(hole)
                else:
                    unverified.append(hole)
            expected = end + 1
            if start > last:
                break
            start, end = max(start, first), min(end, last)
            is_bound = end < last and index + 1 < len(batches) and batches[index + 1].base_offset > expected
            reason = self._verify(index, is_bound=is_bound)
            if index in self._oversized:
                oversized.append((start, end))
                oversized_reason = self._oversized[index]
                continue
            if reason is not None:
                unverified.append((start, end))
                continue
            if self._may_have_moved(index) and not self._is_confirmed(index) and not is_near_limit:
                unverified.append((start, end))
                doubted.append((start, end))
                continue
            found.append(batch)
            if batch.is_control:
                gaps.append((start, end))
            elif index in self._missing:
                gaps += ranges_within(self._missing[index], start, end)
            if end == last:
                break
        if expected <= last:
            unverified.append((expected, last))
        if not unverified:
            return RangeContents(found, gaps, [], (), None, False, oversized, oversized_reason)
        evidence = next(iter(self._broken.values()), self._damage) or self._leftover()
        reason = evidence or moved[0] or moved[1] or self._edges()
        return RangeContents(
            found, gaps, unverified, doubted, reason, evidence is not None, oversized, oversized_reason
        )

    # --- the sequence of batches

    def _read(self) -> list[Batch]:
        if self._batches is None:
            self._batches = []
            try:
                self._batches.extend(read_batches(self._records, budget=self._limit))
            except CorruptBatchError as error:
                self._damage = str(error)
            self._bases = [batch.base_offset for batch in self._batches]
            self._whole = _whole(self._batches)
            if self._whole is None:
                self._disorder = _disorder(self._batches)
        return self._batches

    def _index_at(self, offset: int) -> int:
        """The index of the batch that this offset is in or behind, or of the first batch."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def _both_moved(self) -> tuple[str | None, str | None]:
        """Why the first and the last batch may have moved; None if they haven't."""
        if self._moved is None:
            batches = self._read()
            self._moved = (self._first_moved(batches), self._last_moved(batches)) if batches else (None, None)
        return self._moved

    def _first_moved(self, batches: list[Batch]) -> str | None:
        first = batches[0]
        if first.base_offset >= self._acquired[0][0]:
            return None
        end = batches[1].base_offset - 1 if len(batches) > 1 else self._acquired[-1][1]
        return self._moved_text(first, first.last_offset + 1, end)

    def _last_moved(self, batches: list[Batch]) -> str | None:
        last = batches[-1]
        if last.last_offset <= self._acquired[-1][1]:
            return None
        start = batches[-2].last_offset + 1 if len(batches) > 1 else self._acquired[0][0]
        return self._moved_text(last, start, last.base_offset - 1)

    def _moved_text(self, batch: Batch, start: int, end: int) -> str | None:
        for first, last in self._acquired:
            if max(start, first) <= min(end, last):
                return (
                    f"the batch of offsets {batch.base_offset} to {batch.last_offset} reaches beyond what was "
                    f"acquired, and leaves out offsets {max(start, first)} to {min(end, last)}"
                )
        return None

    def _leftover(self) -> str | None:
        size = len(self._records) - sum(batch.size for batch in self._read())
        return f"{size} bytes are left over after the last whole batch" if size else None

    def _edges(self) -> str:
        if not self._batches:
            return "the response has no batch"
        first, last = self._batches[0].base_offset, self._batches[-1].last_offset
        return (
            f"the response's batches go from offset {first} to {last} (compaction may have removed the rest)"
        )

    # --- single batches

    def _is_gap(self, index: int) -> bool:
        """Whether the hole before this batch can't be due to damage."""
        if index == 0 or self._may_have_moved(index - 1) or self._may_have_moved(index):
            return False
        is_intact = self._verify(index - 1, is_bound=True) is None and self._verify(index) is None
        return is_intact and index - 1 not in self._oversized and index not in self._oversized

    def _may_have_moved(self, index: int) -> bool:
        moved_first, moved_last = self._both_moved()
        if moved_first is None and moved_last is None:
            return False
        return (index == 0 and moved_first is not None) or (
            index == len(self._read()) - 1 and moved_last is not None
        )

    def _is_confirmed(self, index: int) -> bool:
        if index not in self._confirmed:
            self._confirmed[index] = self._was_here(self._read()[index])
        return self._confirmed[index]

    def _verify(self, index: int, *, is_bound: bool = False) -> str | None:
        """What is corrupt in a batch. Next to a hole (`is_bound`), its records must end where its header says."""
        reason = self._broken.get(index)
        if reason is not None:
            return reason
        batch = self._read()[index]
        try:
            batch.open()
            if index not in self._missing and (is_bound or batch.record_count != batch.last_offset_delta + 1):
                self._missing[index] = batch.missing()
        except OversizedBatchError as error:
            self._oversized[index] = str(error)
        except CorruptBatchError as error:
            reason = self._broken[index] = str(error)
        return reason


def wrong_ranges(acquired: Sequence[OffsetRange]) -> dict[int, str]:
    """What is wrong with acquired ranges, by index: brokers send them in order and without overlaps."""
    problems: dict[int, str] = {}
    end = -1
    for index, (first, last) in enumerate(acquired):
        if last < first or first <= end:
            problems[index] = f"acquired offsets {first} to {last}, not after {end}"
        elif last - first >= LARGEST_RANGE:
            problems[index] = f"{last - first + 1} offsets acquired at once, from {first} to {last}"
        else:
            end = last
    return problems


def _whole(batches: list[Batch]) -> OffsetRange | None:
    """The offsets from the first to the last batch, if each has a record for a user."""
    if not batches:
        return None
    start = expected = batches[0].base_offset
    for batch in batches:
        count = batch.record_count
        if (
            batch.base_offset != expected
            or batch.last_offset_delta != count - 1
            or batch.attributes & CONTROL_BIT
            or count < 1
        ):
            return None
        expected += count
    return (start, expected - 1) if 0 <= start and expected <= MAX_INT64 else None


def _disorder(batches: list[Batch]) -> str | None:
    end = -1
    for batch in batches:
        start = batch.base_offset
        if start <= end:
            return f"the batch at offset {start} begins before {end}, where the previous one ends"
        end = start + batch.last_offset_delta
        if batch.last_offset_delta < 0 or end > MAX_INT64:
            return f"the batch at offset {start} has a last offset delta of {batch.last_offset_delta}"
    return None
