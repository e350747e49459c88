"""What a query's member holds: ranges, and never records. Carries word between the brokers and `Custody`.

The query's `Holder`: the engine asks and tells it. What a fetch brings beside the ranges isn't looked at, not even
checked: executors read it anew.

Decides how much to ask for (what the next micro-batch has room for). Who answers for what is `Custody`'s decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby

from kshare.engine.events import LossReason
from kshare.engine.lease_book import LeaseBook
from kshare.engine.reporter import Reporter
from kshare.protocol.frames import MAX_FRAME
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.spark.custody import Custody, Decisions
from kshare.spark.offset_sets import PartitionRange
from kshare.state.lease import ACCEPT, HELD, REJECT, RELEASE, RENEW, SENT, Lease, TopicIdPartition
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import AckRange

_DONE = (ACCEPT, REJECT)
_UNDECIDED = (HELD, RENEW, SENT | RENEW)


class RangeHoldings:
    """`lock_s`: how long the group locks what it gives, once that is known."""

    is_user_waiting = False
    """A micro-batch waits for more, but what is undecided is in the hands of the one before."""
    refill_at = 0
    rate = 0.0
    handed_out_at = 0.0
    """Micro-batches are decided as a whole: records have no pace."""

    def __init__(
        self, custody: Custody, *, lease_timers: LeaseTimers, clock: Callable[[], float], reporter: Reporter
    ) -> None:
        self.book = LeaseBook(self, lease_timers=lease_timers, clock=clock, reporter=reporter)
        self.custody = custody
        self.lock_s: float | None = None
        self.reached: dict[tuple[str, int], int] = {}
        """By topic and partition: what comes after the last offset that was ever given to us."""
        self._wanted = 0
        self._kept: dict[TopicIdPartition, list[Lease]] = {}

    @property
    def held(self) -> int:
        """Offsets that are locked for us and undecided."""
        return self.book.counter.undecided

    def want(self, records: int) -> None:
        """So many fresh ones are to be gathered."""
        self._wanted = records
        self.book.changed.send()

    # --- what the engine asks

    @property
    def wants_more(self) -> bool:
        return self.custody.fresh < self._wanted

    def capacity(self, brokers: int) -> int:
        return max(1, (self._wanted - self.custody.fresh) // brokers)

    def capacity_in_bytes(self, brokers: int) -> int:
        """Nothing is kept but ranges."""
        return MAX_FRAME

    # --- what the engine tells

    def on_acquired(self, topic: str, leases: Sequence[Lease], data: PartitionData, lock_s: float) -> None:
        self.lock_s = lock_s
        for lease in leases:
            # Into the user's hands at once: from here on the lock is renewed, however long Spark takes.
            self.book.lease_timers.hand_out(lease, self.book.clock.now())
            where = (topic, lease.partition[1])
            self.reached[where] = max(self.reached.get(where, 0), lease.last + 1)
            self._kept.setdefault(lease.partition, []).append(lease)
            acquired = PartitionRange(lease.partition, lease.first, lease.last)
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

    def on_lost(self, lease: Lease, why: LossReason) -> None:
        """Only what is undecided: what was released may have come again, and is locked by a newer lease then."""
        for state in _UNDECIDED:
            for start, end in lease.runs(state, state):
                self.custody.lost(PartitionRange(lease.partition, lease.first + start, lease.first + end - 1))

    def on_topic_gone(self, topic_id: bytes) -> None:
        self.custody.topic_gone(topic_id)

    def on_renewing(self, lease: Lease) -> None:
        """Whatever isn't decided is still worked on."""

    def on_released(self, lease: Lease) -> None:
        """Never: leases are handed out when they are acquired."""

    def on_moved(self, lease: Lease) -> None:
        """What is owed stays so, and is accepted when it comes again."""

    def on_session_ended(self) -> None:
        """What is lost by that is told of each lease."""

    def on_failed(self) -> None:
        """Whoever gathers looks for that, again and again."""

    def drop_expired(self) -> None:
        """What must not be planned any more: its lock ran out while this process, or its machine, stood still.

        The session's task finds that too, but it may have its turn later than whoever plans.
        """
        now = self.book.now()
        for leases in self._kept.values():
            for lease in leases:
                if lease.deadline <= now:
                    self.on_lost(lease, "expired")

    # --- what Custody decides

    def apply(self, decisions: Decisions) -> None:
        """Of whatever is still held; the rest comes again, and is met by `Custody` then."""
        for kind, spans in (
            (ACCEPT, decisions.accept),
            (RELEASE, decisions.release),
            (REJECT, decisions.reject),
        ):
            for partition, mine in groupby(sorted(spans), key=lambda span: span.partition):
                self._settle(partition, mine, kind)
        if decisions:
            self.book.changed.send()

    def _settle(self, partition: TopicIdPartition, spans: Iterable[PartitionRange], kind: int) -> None:
        live = sorted(
            (lease for lease in self._kept.pop(partition, ()) if not lease.is_done),
            key=lambda lease: lease.first,
        )
        if live:
            self._kept[partition] = live
        # What was released and came again has a lease within the older one: where the last offsets have got to ascends.
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
