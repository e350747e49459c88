"""The ranges that a query's member holds; it never keeps records. Connects the brokers and `Custody`.

This is the query's `Holder`, which the engine calls. The records in fetch responses are ignored and not even verified,
because executors read them again.

Decides how much to fetch (what the next micro-batch has room for). `Custody` decides which component owns what.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby

from kshare.engine.events import LossReason
from kshare.engine.lease_book import LeaseBook
from kshare.engine.reporter import Reporter
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.decisions import Decisions, DelayedReleases
from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.stager import Stager
from kshare.state.lease import ACCEPT, REJECT, RELEASE, UNDECIDED, Lease, TopicIdPartition
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import AckRange

_DONE = (ACCEPT, REJECT)

_FETCH_BYTES = 16 << 20
"""Measured with records of 10 and 100 kB: responses of this size mostly get memory that was used before. Larger ones
get new pages from the system, which takes as much CPU time as all the rest."""


class RangeHoldings:
    """`lock_s`: the duration of the group's acquisition locks, once it is known."""

    is_user_waiting = False
    """A micro-batch may wait for more records, but the undecided ones belong to the one before it."""
    refill_at = 0
    rate = 0.0
    handed_out_at = 0.0
    """Micro-batches are decided as a whole, so there is no processing rate."""

    def __init__(
        self,
        custody: Custody,
        *,
        lease_timers: LeaseTimers,
        clock: Callable[[], float],
        reporter: Reporter,
        release_delay: float = 0.0,
    ) -> None:
        self.book = LeaseBook(self, lease_timers=lease_timers, clock=clock, reporter=reporter)
        self.custody = custody
        self.lock_s: float | None = None
        self.reached: dict[TopicIdPartition, int] = {}
        """The offset before which all were acquired, and not lost since. Another topic may get the same name later."""
        self.stager: Stager | None = None
        """With `settle=journal`."""
        self.delayed = DelayedReleases(release_delay)
        self._is_trigger_waiting = False
        self._wanted = 0
        self._kept: dict[TopicIdPartition, list[Lease]] = {}

    @property
    def held(self) -> int:
        """Offsets that are locked for us and undecided."""
        return self.book.counter.undecided

    def want(self, records: int) -> None:
        """Fetch until this many records are fresh."""
        self._wanted = records
        self.book.changed.send()

    @contextmanager
    def trigger_waiting(self) -> Iterator[None]:
        """While a trigger waits for records: it goes on with some as soon as brokers have no more."""
        self._is_trigger_waiting = True
        try:
            yield
        finally:
            self._is_trigger_waiting = False

    # --- questions of the engine

    @property
    def wants_more(self) -> bool:
        if self.stager is not None and not self.stager.has_room:
            return False
        return self.custody.fresh < self._wanted

    @property
    def wants_only_ready(self) -> bool:
        """Groups lock few records, so that most triggers get all at once, and would wait for an empty response."""
        return self._is_trigger_waiting and self.custody.fresh > 0

    def capacity(self, brokers: int) -> int:
        return max(1, (self._wanted - self.custody.fresh) // brokers)

    def capacity_in_bytes(self, brokers: int) -> int:
        """Constant, since only ranges are kept."""
        return _FETCH_BYTES

    # --- notifications of the engine

    def on_acquired(self, topic: str, leases: Sequence[Lease], data: PartitionData, lock_s: float) -> None:
        self.lock_s = lock_s
        if self.stager is not None:
            self.stager.on_acquired(len(data.records or b""))
        for lease in leases:
            # Counts as handed out at once, so that the lock is renewed however long Spark takes.
            self.book.lease_timers.hand_out(lease, self.book.clock.now())
            self.reached[lease.partition] = max(self.reached.get(lease.partition, 0), lease.last + 1)
            self._kept.setdefault(lease.partition, []).append(lease)
            acquired = PartitionRange(lease.partition, lease.first, lease.last)
            self.delayed.remove(acquired)
            self.apply(self.custody.acquired(topic, acquired, lease.delivery_count))

    def on_confirmed(self, partition: TopicIdPartition, ranges: Sequence[AckRange]) -> None:
        for first, last, types in ranges:
            if len(types) == 1:
                if types[0] in _DONE:
                    self.custody.confirmed(PartitionRange(partition, first, last))
                continue
            for at, kind in enumerate(types, first):
                if kind in _DONE:
                    self.custody.confirmed(PartitionRange(partition, at, at))

    def on_lost(self, lease: Lease, reason: LossReason) -> None:
        """Report only undecided records as lost: released ones may have been redelivered under a newer lease.

        They will be redelivered, so their partition has to be read again.
        """
        for start, end in lease.runs_in(lease.first, lease.last, UNDECIDED):
            lost = PartitionRange(lease.partition, lease.first + start, lease.first + end - 1)
            self.reached[lost.partition] = min(self.reached.get(lost.partition, 0), lost.first)
            self.custody.lost(lost)

    def on_topic_gone(self, topic_id: bytes) -> None:
        self.custody.topic_gone(topic_id)

    def drop_expired(self) -> None:
        """Drop what must no longer be planned: its lock expired while this process or its machine was suspended.

        The session's task detects that, too, but may run later than the planning.
        """
        now = self.book.now()
        for leases in self._kept.values():
            for lease in leases:
                if lease.deadline <= now:
                    self.on_lost(lease, "expired")

    # --- decisions of `Custody`

    def apply(self, decisions: Decisions) -> None:
        """Apply these to what is still held. The rest will be redelivered, and `Custody` decides again then."""
        for kind, spans in (
            (ACCEPT, decisions.accept),
            (RELEASE, decisions.release),
            (REJECT, decisions.reject),
        ):
            for partition, partition_spans in groupby(sorted(spans), key=lambda span: span.partition):
                self._settle(partition, partition_spans, kind)
        if decisions.release_later:
            self.delayed.add(decisions.release_later, self.book.now())
            self.release_due()
        if decisions:
            self.book.changed.send()

    def release_due(self) -> None:
        """Release the rows whose delay is over. They will be redelivered, so their partitions have to be read again."""
        due = self.delayed.take_due(self.book.now())
        for span in due:
            self.reached[span.partition] = min(self.reached.get(span.partition, 0), span.first)
        if due:
            self.apply(Decisions(release=due))

    def _settle(self, partition: TopicIdPartition, spans: Iterable[PartitionRange], kind: int) -> None:
        live = sorted(
            (lease for lease in self._kept.pop(partition, ()) if not lease.is_done),
            key=lambda lease: lease.first,
        )
        if live:
            self._kept[partition] = live
        # A lease of redelivered records may lie within an older one, so only the running maximum of the ends ascends.
        reach = list(accumulate((lease.last for lease in live), max))
        for span in spans:
            at = bisect_left(reach, span.first)
            while at < len(live) and live[at].first <= span.last:
                _decide(live[at], span, kind)
                at += 1


def _decide(lease: Lease, span: PartitionRange, kind: int) -> None:
    if span.first <= lease.first and lease.last <= span.last:
        lease.decide_held(kind)
        return
    for offset in range(max(span.first, lease.first), min(span.last, lease.last) + 1):
        lease.decide_if_held(offset, kind)
