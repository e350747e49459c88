"""Acquires records for a member: new ones by the log's batches, released ones by the batches they were acquired in.

Decides where an acquisition ends:
- at the end of the log's batch that contains the last requested record, or, with a strict limit, at that record;
- before a record whose next delivery is its last;
- after the number of records that a suspicious record may be delivered with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kshare.broker.shares.delivery import Delivery, GroupLimits, RecordState
from kshare.broker.shares.window import InFlightBatch, Window

BatchBounds = tuple[int, int]
"""First and last offset."""


@dataclass(slots=True)
class AcquiredRecords:
    """Consecutive records that were acquired together, with the same delivery count."""

    first: int
    last: int
    count: int
    """The delivery count, including this delivery."""

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def acquire_new(
    window: Window,
    member: str,
    spans: Sequence[BatchBounds],
    wanted: BatchBounds,
    max_records: int,
    batch_size: int,
    is_strict: bool,
    lock_until: int,
) -> list[AcquiredRecords]:
    """Acquires records for the first time, from the log's batches in `spans`."""
    first = max(wanted[0], window.start)
    last = wanted[1]
    if last - first + 1 > max_records:
        last = min(last, next((end for _, end in spans if end >= first + max_records - 1), last))
    acquired: list[AcquiredRecords] = []
    for piece in _pieces(spans, first, last, batch_size, is_strict):
        batch = InFlightBatch(*piece, Delivery())
        window.add(batch)
        surplus = piece[1] - (first + max_records - 1) if is_strict else 0
        if surplus <= 0:
            batch.whole.acquire(member, lock_until)
            acquired.append(AcquiredRecords(*piece, 1))
        else:
            for delivery in batch.split()[: batch.size - surplus]:
                delivery.acquire(member, lock_until)
            acquired.append(AcquiredRecords(piece[0], piece[1] - surplus, 1))
    return acquired


def _pieces(
    spans: Sequence[BatchBounds], first: int, last: int, batch_size: int, is_strict: bool
) -> Iterator[BatchBounds]:
    """Split at ends of log batches, into pieces of at least `batch_size`. With a strict limit, there is one piece."""
    begin = first
    if not is_strict and last - first + 1 > batch_size:
        for _, end in spans:
            if first <= end < last and end - begin + 1 >= batch_size:
                yield begin, end
                begin = end + 1
    yield begin, last


def is_suspicious(batch: InFlightBatch, wanted: BatchBounds, limits: GroupLimits) -> bool:
    """Whether an available record of the batch has a suspicious delivery count."""
    return any(
        delivery.state is RecordState.AVAILABLE and limits.is_suspicious_count(delivery.count)
        for _, _, delivery in batch.runs_between(*wanted)
    )


def acquire_known(
    batch: InFlightBatch,
    member: str,
    wanted: BatchBounds,
    max_records: int,
    is_strict: bool,
    limits: GroupLimits,
    lock_until: int,
) -> list[AcquiredRecords]:
    """Acquire the available records of a batch that was acquired before."""
    is_covered = wanted[0] <= batch.first and wanted[1] >= batch.last
    fits = not is_strict or batch.size <= max_records
    if batch.records is None:
        if batch.whole.state is not RecordState.AVAILABLE:
            return []
        if is_covered and fits and not is_suspicious(batch, wanted, limits):
            batch.whole.acquire(member, lock_until)
            return [AcquiredRecords(batch.first, batch.last, batch.whole.count)]
    return _acquire_some(batch, member, wanted, max_records if is_strict else batch.size, limits, lock_until)


def _acquire_some(
    batch: InFlightBatch,
    member: str,
    wanted: BatchBounds,
    max_records: int,
    limits: GroupLimits,
    lock_until: int,
) -> list[AcquiredRecords]:
    acquired: list[AcquiredRecords] = []
    taken = 0
    batch.split()
    for offset, _, delivery in batch.runs_between(*wanted):
        if taken >= max_records:
            break
        if delivery.state is not RecordState.AVAILABLE:
            continue
        count = delivery.count
        is_throttled = limits.is_suspicious_count(count)
        if is_throttled and limits.is_last(count) and taken:
            break
        delivery.acquire(member, lock_until)
        taken += 1
        before = acquired[-1] if acquired else None
        if before and before.last + 1 == offset and before.count == delivery.count:
            before.last = offset
        else:
            acquired.append(AcquiredRecords(offset, offset, delivery.count))
        if is_throttled and taken == limits.max_records_with(count, batch.size):
            break
    return acquired
