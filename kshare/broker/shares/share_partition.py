"""One share-partition: which member may acquire which records, and the effects of acknowledgements.

The states of a record are in `delivery`'s table; the state of each record is in `window`. This module decides
- which records are acquired: released records first, then new ones, aligned to the log's batches (or, with a strict
  limit, to records), within the in-flight limit, and poison records in ever smaller batches;
- whether acknowledgements are accepted: all those of a request, or none;
- what must be written before a change takes effect: the `Change`. Nothing is changed until `apply`.

Never does IO and has no clock: time is passed in. Never sees records, only offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from kshare.broker.request_error import RequestError
from kshare.broker.share_state.state_batches import StateBatch
from kshare.broker.shares.acquiring import (
    AcquiredRecords,
    BatchBounds,
    acquire_known,
    acquire_new,
    is_suspicious,
)
from kshare.broker.shares.delivery import ArchiveCause, Delivery, GroupLimits, RecordState
from kshare.broker.shares.window import DeliveryRun, InFlightBatch, Window
from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.error_codes import ErrorCode


@dataclass(slots=True, frozen=True)
class AckRange:
    """A member's acknowledgement of offsets: one type for all of them, or one for each."""

    first: int
    last: int
    kinds: tuple[AcknowledgeType, ...]

    def kind_of(self, offset: int) -> AcknowledgeType:
        return self.kinds[0] if len(self.kinds) == 1 else self.kinds[offset - self.first]


@dataclass(slots=True, frozen=True)
class ArchivedRange:
    """Archived records that need dead letters."""

    first: int
    last: int
    count: int
    cause: ArchiveCause


@dataclass(slots=True)
class Change:
    """State changes that are not in effect yet: they are written first, then applied."""

    settled: list[tuple[DeliveryRun, RecordState]] = field(default_factory=list)
    renewed: list[Delivery] = field(default_factory=list)
    archived: list[ArchivedRange] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many records are settled."""
        return sum(last - first + 1 for (first, last, _), _ in self.settled)

    @property
    def batches(self) -> list[StateBatch]:
        """The states to write. Consecutive records in the same state are merged."""
        rows: list[StateBatch] = []
        begin = end = count = -1
        state: RecordState | None = None
        for (first, last, delivery), new in self.settled:
            if state is not None and (first, new, delivery.count) == (end + 1, state, count):
                end = last
                continue
            if state is not None:
                rows.append(StateBatch(begin, end, state, count))
            begin, end, state, count = first, last, new, delivery.count
        if state is not None:
            rows.append(StateBatch(begin, end, state, count))
        return rows

    def settle(self, run: DeliveryRun, state: RecordState, cause: ArchiveCause | None = None) -> None:
        self.settled.append((run, state))
        if cause is not None:
            self._archive(run, cause)

    def _archive(self, run: DeliveryRun, cause: ArchiveCause) -> None:
        first, last, delivery = run
        if self.archived:
            before = self.archived[-1]
            if (before.last + 1, before.count, before.cause) == (first, delivery.count, cause):
                self.archived[-1] = ArchivedRange(before.first, last, before.count, cause)
                return
        self.archived.append(ArchivedRange(first, last, delivery.count, cause))


class SharePartition:
    """The state of one partition for one group, at its leader."""

    def __init__(self, start: int, stored: Iterable[StateBatch] = ()) -> None:
        """`stored` are stored states. Offsets between them were acquired before, and are available."""
        self.window = Window(start)
        for row in sorted(stored, key=lambda row: row.first):
            first = max(row.first, start)
            if row.last < first:
                continue
            if first > self.window.end:
                self.window.add(InFlightBatch(self.window.end, first - 1, Delivery()))
            self.window.add(InFlightBatch(first, row.last, Delivery(_restored(row.state), row.deliveries)))
        self.window.advance()

    @property
    def start_offset(self) -> int:
        return self.window.start

    def can_acquire(self, limits: GroupLimits) -> bool:
        """Released records can always be acquired again, new ones unless the in-flight window is full."""
        window = self.window
        return window.next_available() != window.end or window.count < limits.in_flight

    # --- acquiring

    def acquire(
        self,
        member: str,
        spans: Sequence[BatchBounds],
        *,
        max_records: int,
        batch_size: int,
        is_strict: bool,
        limits: GroupLimits,
        now: int,
    ) -> list[AcquiredRecords]:
        """Acquire records of what was read at `window.next_available()`; `spans` are the log's batches.

        Available records before the first batch were removed by compaction. They are archived, as in real brokers:
        otherwise, all fetches would begin with them, and get nothing.
        """
        window = self.window
        if not spans or max_records <= 0:
            return []
        if window.next_available() < spans[0][0]:
            self._archive_available(spans[0][0])
            window.advance()
        lock_until = now + limits.lock_ms
        last = spans[-1][1]
        remaining = min(max_records, limits.in_flight - window.count)
        if remaining <= 0:
            begin = window.next_available()
            if begin >= window.end:
                return []
            remaining, last = min(max_records, window.end - begin), window.end - 1
        acquired: list[AcquiredRecords] = []
        position = max(spans[0][0], window.start)
        for batch in window.between(position, last):
            if remaining <= 0:
                return acquired
            if batch.first > position:
                taken = acquire_new(
                    window,
                    member,
                    spans,
                    (position, batch.first - 1),
                    remaining,
                    batch_size,
                    is_strict,
                    lock_until,
                )
                acquired += taken
                remaining -= sum(each.size for each in taken)
                if remaining <= 0:
                    return acquired
            is_throttled = is_suspicious(batch, (position, last), limits)
            if is_throttled and acquired:
                return acquired
            taken = acquire_known(batch, member, (position, last), remaining, is_strict, limits, lock_until)
            acquired += taken
            remaining -= sum(each.size for each in taken)
            if is_throttled:
                return acquired
            position = max(position, batch.last + 1)
        if remaining > 0 and position <= last and position >= window.end:
            acquired += acquire_new(
                window, member, spans, (position, last), remaining, batch_size, is_strict, lock_until
            )
        return acquired

    # --- acknowledging

    def acknowledge(self, member: str, ranges: Iterable[AckRange], limits: GroupLimits) -> Change:
        """Accept all ranges, or none: raises RequestError with INVALID_REQUEST or INVALID_RECORD_STATE."""
        change = Change()
        window, settled_to = self.window, -1
        for each in ranges:
            if each.last < window.start:
                continue
            first = max(each.first, window.start)
            if not window.batches or first <= settled_to:
                raise RequestError(ErrorCode.INVALID_RECORD_STATE, "no records are acquired at these offsets")
            if not window.knows_before(first) or each.last >= window.end:
                raise RequestError(ErrorCode.INVALID_REQUEST, "these offsets were never acquired")
            for batch in window.between(first, each.last):
                self._acknowledge_batch(change, member, batch, each, limits)
            settled_to = each.last
        return change

    def _acknowledge_batch(
        self, change: Change, member: str, batch: InFlightBatch, acks: AckRange, limits: GroupLimits
    ) -> None:
        first = max(acks.first, self.window.start)
        is_whole = first <= batch.first and acks.last >= batch.last and len(acks.kinds) == 1
        if not is_whole:
            batch.split()
        for run in batch.runs_between(first, acks.last):
            if not run[2].is_held_by(member):
                raise RequestError(ErrorCode.INVALID_RECORD_STATE, "not acquired by this member")
            _apply_ack(change, run, acks.kind_of(max(run[0], first)), limits)

    def release(self, member: str, limits: GroupLimits) -> Change:
        """Release all records of a member whose session has ended."""
        held = [run for run in self.window.runs() if run[2].is_held_by(member)]
        if not limits.since_4_2:
            for _, _, delivery in held:
                delivery.count -= 1
        return self._give_back(held, limits)

    def expire(self, now: int, limits: GroupLimits) -> Change:
        """Release the records whose locks have expired."""
        return self._give_back([run for run in self.window.runs() if _is_over(run[2], now)], limits)

    def next_expiry(self) -> int | None:
        """When the next lock expires."""
        return min(
            (
                delivery.lock_until
                for _, _, delivery in self.window.runs()
                if delivery.state is RecordState.ACQUIRED
            ),
            default=None,
        )

    def _give_back(self, runs: Iterable[DeliveryRun], limits: GroupLimits) -> Change:
        change = Change()
        for run in runs:
            _apply_ack(change, run, AcknowledgeType.RELEASE, limits)
        return change

    def apply(self, change: Change, now: int, limits: GroupLimits) -> None:
        """Put a change into effect, after it was written."""
        for delivery in change.renewed:
            delivery.lock_until = now + limits.lock_ms
        for (_, _, delivery), state in change.settled:
            delivery.settle(state)
        self.window.advance()

    # --- changes of the log

    def move_start(self, log_start: int) -> bool:
        """The log start has moved. Available records before it are dropped; acquired ones may still be acknowledged."""
        window = self.window
        if log_start <= window.start:
            return False
        if log_start >= window.end and not any(run[2].state is RecordState.ACQUIRED for run in window.runs()):
            window.reset(log_start)
            return True
        self._archive_available(log_start)
        window.start = log_start
        window.end = max(window.end, log_start)
        if not window.batches or window.batches[0].first >= log_start:
            window.advance()
        return True

    def _archive_available(self, end: int) -> None:
        """Archive available records before this offset, which the log no longer has."""
        for batch in self.window.between(self.window.start, end - 1):
            if batch.records is None and batch.last >= end and batch.whole.state is RecordState.AVAILABLE:
                batch.split()
            for first, _, delivery in batch.runs():
                if first < end and delivery.state is RecordState.AVAILABLE:
                    delivery.settle(RecordState.ARCHIVED)


def _restored(state: int) -> RecordState:
    """What was acquired is available again. States that kshare doesn't know are final."""
    if state == RecordState.ACQUIRED:
        return RecordState.AVAILABLE
    return RecordState(state) if state in RecordState._value2member_map_ else RecordState.ARCHIVED


def _is_over(delivery: Delivery, now: int) -> bool:
    return delivery.state is RecordState.ACQUIRED and delivery.lock_until <= now


def _apply_ack(change: Change, run: DeliveryRun, kind: AcknowledgeType, limits: GroupLimits) -> None:
    if kind is AcknowledgeType.RENEW:
        change.renewed.append(run[2])
    elif kind is AcknowledgeType.ACCEPT:
        change.settle(run, RecordState.ACKNOWLEDGED)
    elif kind is AcknowledgeType.REJECT:
        change.settle(run, RecordState.ARCHIVED, ArchiveCause.REJECTED)
    elif kind is AcknowledgeType.GAP:
        change.settle(run, RecordState.ARCHIVED)
    elif kind is AcknowledgeType.RELEASE:
        state = limits.after_release(run[2].count)
        change.settle(run, state, ArchiveCause.TOO_MANY_DELIVERIES if state is RecordState.ARCHIVED else None)
    else:
        assert_never(kind)
