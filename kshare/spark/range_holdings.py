"""What a query's member holds: ranges, and never records. Carries word between the brokers and `Custody`.

Takes the place of a consumer's `Holdings`: the same sessions, heartbeats and renewals work for it. What a fetch brings
beside the ranges isn't looked at, not even checked: executors read it anew.

Decides how much to ask for (what the next micro-batch has room for). Who answers for what is `Custody`'s decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate, groupby

from kshare.client.holdings import Holdings
from kshare.engine.events import LossReason, Reporter
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.spark.custody import Custody, Decisions
from kshare.spark.spans import Span
from kshare.state.acks import Outcome, PartitionAcks
from kshare.state.lease import ACCEPT, HELD, REJECT, RELEASE, RENEW, SENT, Lease, Partition
from kshare.state.leases import LeaseKeeper

_DONE = (ACCEPT, REJECT)
_UNDECIDED = (HELD, RENEW, SENT | RENEW)


class RangeHoldings(Holdings):
    """`wanted`: fresh records to gather; `lock_s`: how long the group locks what it gives, once that is known."""

    def __init__(
        self, custody: Custody, *, keeper: LeaseKeeper, clock: Callable[[], float], reporter: Reporter
    ) -> None:
        super().__init__(most=1, keeper=keeper, clock=clock, reporter=reporter)
        self.custody = custody
        self.wanted = 0
        self.lock_s: float | None = None
        self.reached: dict[tuple[str, int], int] = {}
        """By topic and partition: what comes after the last offset that was ever given to us."""
        self._kept: dict[Partition, list[Lease]] = {}

    @property
    def held(self) -> int:
        """Offsets that are locked for us and undecided."""
        return self.tally.undecided

    # --- what the sessions ask

    @property
    def wants_more(self) -> bool:
        return self.custody.fresh < self.wanted

    @property
    def room(self) -> int:
        return max(1, (self.wanted - self.custody.fresh) // max(1, self.sources))

    # --- what the sessions tell

    def add(
        self, topic: str, acks: PartitionAcks, data: PartitionData, lock_s: float, sent_at: float
    ) -> None:
        self._now()
        self.lock_s = lock_s
        self._names[acks.partition[0]] = topic
        for acquired in data.acquired_records:
            first, last = acquired.first_offset, acquired.last_offset
            lease = Lease(acks.partition, first, last, acquired.delivery_count, tally=self.tally)
            self._on_lost_to_itself(acks.partition, *acks.add(lease))
            self.keeper.add(lease, lock_s, sent_at)
            # Into the user's hands at once: from here on the lock is renewed, however long Spark takes.
            self.keeper.hand_out(lease, self.clock())
            where = (topic, acks.partition[1])
            self.reached[where] = max(self.reached.get(where, 0), last + 1)
            self._kept.setdefault(acks.partition, []).append(lease)
            self.carry_out(
                self.custody.acquired(topic, Span(acks.partition, first, last), acquired.delivery_count)
            )
        self.arrived.send()

    def on_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        told = list(outcomes)
        for outcome in told:
            if outcome.error == 0 and not outcome.is_open:
                for first, last, types in outcome.ranges:
                    self._confirm(outcome.partition, first, last, types)
        super().on_outcomes(told)

    def _confirm(self, partition: Partition, first: int, last: int, types: bytes) -> None:
        if len(types) == 1:
            if types[0] in _DONE:
                self.custody.confirmed(Span(partition, first, last))
            return
        for at, kind in enumerate(types, first):
            if kind in _DONE:
                self.custody.confirmed(Span(partition, at, at))

    def _report_lost(self, leases: Iterable[Lease], why: LossReason) -> None:
        lost = list(leases)
        for lease in lost:
            self._take_from_custody(lease)
        super()._report_lost(lost, why)

    def drop_expired(self) -> None:
        """What must not be planned any more: its lock ran out while this process, or its machine, stood still.

        The session's task finds that too, but it may have its turn later than whoever plans.
        """
        now = self._now()
        for leases in self._kept.values():
            for lease in leases:
                if lease.deadline <= now:
                    self._take_from_custody(lease)

    def _take_from_custody(self, lease: Lease) -> None:
        """Only what is undecided: what was released may have come again, and is locked by a newer lease then."""
        for state in _UNDECIDED:
            for start, end in lease.runs(state, state):
                self.custody.lost(Span(lease.partition, lease.first + start, lease.first + end - 1))

    def forget_topic(self, topic_id: bytes) -> None:
        super().forget_topic(topic_id)
        self.custody.topic_gone(topic_id)

    # --- what Custody decides

    def carry_out(self, decisions: Decisions) -> None:
        """Of whatever is still held; the rest comes again, and is met by `Custody` then."""
        for kind, spans in (
            (ACCEPT, decisions.accept),
            (RELEASE, decisions.release),
            (REJECT, decisions.reject),
        ):
            for partition, mine in groupby(sorted(spans), key=lambda span: span.partition):
                self._settle(partition, mine, kind)
        if decisions:
            self.changed.send()

    def _settle(self, partition: Partition, spans: Iterable[Span], kind: int) -> None:
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


def _decide(lease: Lease, span: Span, kind: int) -> None:
    if span.first <= lease.first and lease.last <= span.last:
        lease.decide_held(kind)
        return
    for offset in range(max(span.first, lease.first), min(span.last, lease.last) + 1):
        lease.decide_if_held(offset, kind)
