"""Reports what happens to leases: in the log, to observers, and in the results of the next commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kshare.engine.commits import Commits
from kshare.engine.events import Acknowledged, Finished, GivenBack, LeaseLost, LeaseRenewed, LossReason
from kshare.engine.reporter import Reporter
from kshare.errors import AcknowledgeError, BrokerError, ConnectionLost, KshareError
from kshare.offset_ranges import without
from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.error_codes import ErrorCode, error_name
from kshare.state.acks import AckOutcome
from kshare.state.lease import GAP, HELD, LOST, SETTLED, UNDECIDED, Lease, TopicIdPartition, state_ranges
from kshare.state.lease_timers import LeaseTimers
from kshare.state.unseen_releases import SAFE_LEFT

_UNSENT = state_ranges([*(kind for kind in AcknowledgeType if kind != GAP), HELD])
"""What the user holds, or has decided and no request has taken along."""
_HELD = state_ranges([HELD])
_LOST_BECAUSE = {
    "expired": "lock expired; will be redelivered",
    "session": "the session with the broker ended; will be redelivered",
    "moved": "the leader of the partition moved; will be redelivered",
    "topic": "the topic was deleted",
}
"""In words for users."""

_SESSION_ENDED = (
    "the session with the broker ended before the acknowledgement arrived; redelivered unless settled"
)
_REFUSED_BECAUSE: dict[int, str] = {
    ErrorCode.INVALID_RECORD_STATE: "the lock expired, or the record was settled before; redelivered unless settled",
    ErrorCode.SHARE_SESSION_NOT_FOUND: _SESSION_ENDED,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: _SESSION_ENDED,
}
"""For users: the descriptions of error codes are for authors of clients."""


UnreadOf = Callable[[Lease], Sequence[tuple[int, int]]]
"""Returns what no loop has got yet of a lease that was handed out: first and last offset of each part."""


class LeaseReports:
    def __init__(
        self, reporter: Reporter, lease_timers: LeaseTimers, commits: Commits, unread: UnreadOf
    ) -> None:
        self._reporter = reporter
        self._lease_timers = lease_timers
        self._commits = commits
        self._unread = unread
        self._names: dict[bytes, str] = {}

    def learn(self, topic_id: bytes, topic: str) -> None:
        self._names[topic_id] = topic

    def topic_partition_of(self, partition: TopicIdPartition) -> tuple[str, int]:
        topic_id, number = partition
        return self._names.get(topic_id) or topic_id.hex(), number

    # --- losses

    def came_again(self, lease: Lease, older_ones: Iterable[Lease]) -> None:
        """Report records of older leases that the user still holds and that were delivered again."""
        for older in older_ones:
            held = older.spans_in(lease.first, lease.last, _HELD)
            if held and self._lease_timers.handed_out_at(older) is not None:
                older.loss_reason = _LOST_BECAUSE["expired"]
                if in_hand := without(held, sorted(self._unread(older))):
                    self._note_lost(older, in_hand)

    def expired_unnoticed(self, partition: TopicIdPartition, records: int) -> None:
        """The broker delivers records again that we hold: their locks expired earlier than we calculated."""
        self._warn("redelivered while held: the lock had expired at the broker", partition, records)
        self._reporter.report(LeaseLost(*self.topic_partition_of(partition), records, "expired"))

    def locks_lost(self, outcome: AckOutcome) -> None:
        """Some records of a lease couldn't be renewed, though others could."""
        cause = "lock lost: it wasn't renewed, unlike others acquired with it; will be redelivered"
        for lease, first, last in outcome.locks_lost:
            records = last - first + 1
            self._warn(cause, outcome.partition, records, first, last)
            lease.loss_reason = _LOST_BECAUSE["expired"]
            in_hand = without([(first, last)], sorted(self._unread(lease)))
            if in_hand and self._lease_timers.handed_out_at(lease) is not None:
                self._note_lost(lease, in_hand)
            self._reporter.report(LeaseLost(*self.topic_partition_of(outcome.partition), records, "expired"))

    def given_up(self, outcome: AckOutcome, error: int) -> None:
        cause = "given up as lost: all acknowledgements of their leases were refused"
        self._warn(cause, outcome.partition, outcome.given_up, detail=error_name(error))
        topic_partition = self.topic_partition_of(outcome.partition)
        self._reporter.report(LeaseLost(*topic_partition, outcome.given_up, "expired"))

    def lost(self, lease: Lease, reason: LossReason) -> None:
        """Called before the lease is counted as lost: reports the records that are neither settled nor lost.

        Commits return the loss of those that the user holds: not of those that no loop has got.
        """
        records = len(lease.states) - lease.count(SETTLED) - lease.count(LOST)
        if reason == "expired":
            # Acknowledgements under way aren't lost yet: the response has their outcome.
            unsent = lease.spans_in(lease.first, lease.last, _UNSENT)
            records = _size(unsent)
            self._warn_of_spans("lock expired; will be redelivered", lease, unsent)
        if not records:
            return
        lease.loss_reason = _LOST_BECAUSE.get(reason, reason)
        unread = self._unread(lease) if lease.undecided else ()
        held = without(lease.spans_in(lease.first, lease.last, UNDECIDED), sorted(unread))
        if held and self._lease_timers.handed_out_at(lease) is not None:
            self._note_lost(lease, held)
        self._reporter.report(LeaseLost(*self.topic_partition_of(lease.partition), records, reason))

    def last_delivery(self, lease: Lease, limit: int) -> None:
        cause = "acquired for the last time; records that aren't accepted won't be redelivered"
        detail = f"delivery {lease.delivery_count} of {limit}"
        self._warn(cause, lease.partition, lease.undecided, lease.first, lease.last, detail)

    def given_back(self, lease: Lease, records: int, left: int, span: tuple[int, int]) -> None:
        """Records of these offsets that nobody has seen were released, or their locks were lost."""
        self._reporter.report(GivenBack(*self.topic_partition_of(lease.partition), records, left))
        if left >= SAFE_LEFT:
            return
        if left:
            self._warn(
                "released without being handed out; one delivery is left", lease.partition, records, *span
            )
        else:
            cause = "released without being handed out, at the delivery count limit; the broker archives them"
            self._log(logging.ERROR, cause, lease.partition, records, *span)

    def oversized(self, lease: Lease, reason: str, limit: int) -> None:
        """Records are kept, because they would decompress to more than the limit."""
        timers = self._lease_timers
        keeps = (
            "They stay locked"
            if timers.can_renew
            else f"Their lock will expire, because it can't be renewed ({timers.no_renewal_because})"
        )
        detail = (
            f"{reason}. This was delivery {lease.delivery_count} of {limit}. {keeps}, and the partition's in-flight "
            f"window can't move past offset {lease.first}: once it is full, nothing more of it is delivered. "
            "Raise max_decompressed_bytes and restart: each restart, and each session that ends, costs a delivery, and "
            "after the last one the broker archives them"
        )
        self._name_oversized("not handed out, and kept", lease, detail)

    def stopped(self, lease: Lease, left: int) -> None:
        """Nothing of the partition is fetched any more, because of oversized records in it."""
        detail = f"deliveries left: {left}. Raise max_decompressed_bytes and restart"
        self._name_oversized("no longer locked, so their partition is no longer fetched", lease, detail)

    def _name_oversized(self, what: str, lease: Lease, detail: str) -> None:
        cause, records = f"larger than max_decompressed_bytes; {what}", len(lease.states)
        self._log(logging.ERROR, cause, lease.partition, records, lease.first, lease.last, detail)

    def _note_lost(self, lease: Lease, held: Sequence[tuple[int, int]]) -> None:
        topic, partition = self.topic_partition_of(lease.partition)
        first, last = min(held)[0], max(held)[1]
        records_text = (
            f"offset {first}"
            if first == last
            else f"{_size(held)} records between offsets {first} and {last}"
        )
        reason = f"{topic}[{partition}], {records_text}: {lease.loss_reason}"
        lease.held_losses += held
        self._commits.on_loss(lease, AcknowledgeError(reason))

    # --- renewals

    def not_renewed(self, outcome: AckOutcome) -> None:
        records = sum(lease.undecided for lease in outcome.not_renewed)
        cause = "lock not renewed: the group forbids it, or the lock has expired"
        self._warn(cause, outcome.partition, records)

    def not_renewable(self, lease: Lease) -> None:
        """It will be renewed no more."""
        timers = self._lease_timers
        reason = "held for max_lease_seconds" if timers.can_renew else timers.no_renewal_because
        cause = f"lock is not renewed ({reason}); will be redelivered unless acknowledged before it expires"
        self._warn_of_spans(cause, lease, lease.spans_in(lease.first, lease.last, UNDECIDED))

    # --- outcomes

    def settled(self, outcome: AckOutcome, error: KshareError | None) -> None:
        self._reporter.settled(outcome.ranges, error)
        if self._reporter.wants_outcomes:
            topic_partition = self.topic_partition_of(outcome.partition)
            self._reporter.report(Acknowledged(*topic_partition, outcome.ranges, error, outcome.is_open))
        for lease in outcome.renewed:
            self._reporter.report(LeaseRenewed(*self.topic_partition_of(outcome.partition), lease.undecided))

    def finished(self, leases: Iterable[Lease], now: float) -> None:
        """Those of which every record is settled, and that were in the user's hands."""
        for lease in leases:
            handed_out_at = self._lease_timers.handed_out_at(lease)
            if handed_out_at is not None and lease.count(SETTLED) == len(lease.states):
                topic_partition = self.topic_partition_of(lease.partition)
                self._reporter.report(Finished(*topic_partition, len(lease.states), now - handed_out_at))

    # --- the log

    def _warn_of_spans(self, cause: str, lease: Lease, spans: Sequence[tuple[int, int]]) -> None:
        if spans:
            self._warn(cause, lease.partition, _size(spans), min(spans)[0], max(spans)[1])

    def _warn(
        self,
        cause: str,
        partition: TopicIdPartition,
        records: int,
        first: int | None = None,
        last: int | None = None,
        detail: str = "",
    ) -> None:
        self._log(logging.WARNING, cause, partition, records, first, last, detail)

    def _log(self, level: int, cause: str, partition: TopicIdPartition, *about: Any) -> None:
        self._reporter.log.records(level, cause, *self.topic_partition_of(partition), *about)


def _size(spans: Iterable[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in spans)


def outcome_error(outcome: AckOutcome) -> KshareError | None:
    """The error for users; None if there is none."""
    if outcome.is_open:
        return ConnectionLost("connection lost before the broker responded; the outcome is open")
    if not outcome.error:
        return None
    return BrokerError(outcome.error, "acknowledgement refused", _REFUSED_BECAUSE.get(outcome.error))
