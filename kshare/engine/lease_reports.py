"""Reports what happens to leases: in the log, to observers, and in the results of the next commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

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
            held = older.runs_within(lease.first, lease.last, HELD, HELD)
            if held and self._lease_timers.handed_out_at(older) is not None:
                older.loss_reason = _LOST_BECAUSE["expired"]
                if in_hand := without(_offsets(older, held), sorted(self._unread(older))):
                    self._note_lost(older, in_hand)

    def expired_unnoticed(self, partition: TopicIdPartition, records: int) -> None:
        """The broker delivers records again that we hold: their locks expired earlier than we calculated."""
        topic_partition = self.topic_partition_of(partition)
        cause = "delivered again while held: the lock had expired at the broker"
        self._reporter.log.records(logging.WARNING, cause, *topic_partition, records)
        self._reporter.report(LeaseLost(*topic_partition, records, "expired"))

    def locks_lost(self, outcome: AckOutcome) -> None:
        """Some records of a lease couldn't be renewed, though others could."""
        topic_partition = self.topic_partition_of(outcome.partition)
        cause = "lock lost: it wasn't renewed, unlike others acquired with it; will be redelivered"
        for lease, first, last in outcome.locks_lost:
            records = last - first + 1
            self._reporter.log.records(logging.WARNING, cause, *topic_partition, records, first, last)
            lease.loss_reason = _LOST_BECAUSE["expired"]
            in_hand = without([(first, last)], sorted(self._unread(lease)))
            if in_hand and self._lease_timers.handed_out_at(lease) is not None:
                self._note_lost(lease, in_hand)
            self._reporter.report(LeaseLost(*topic_partition, records, "expired"))

    def given_up(self, outcome: AckOutcome, error: int) -> None:
        topic_partition = self.topic_partition_of(outcome.partition)
        cause = "given up as lost: all acknowledgements of their leases were refused"
        self._reporter.log.records(
            logging.WARNING, cause, *topic_partition, outcome.given_up, detail=error_name(error)
        )
        self._reporter.report(LeaseLost(*topic_partition, outcome.given_up, "expired"))

    def lost(self, lease: Lease, reason: LossReason) -> None:
        """Called before the lease is counted as lost: reports the records that are neither settled nor lost.

        Commits return the loss of those that the user holds: not of those that no loop has got.
        """
        records = len(lease.states) - lease.count(SETTLED) - lease.count(LOST)
        if reason == "expired":
            # Acknowledgements under way aren't lost yet: the response has their outcome.
            runs = lease.runs_in(lease.first, lease.last, _UNSENT)
            records = sum(end - start for start, end in runs)
            self._log_records("lock expired; will be redelivered", lease, runs)
        if not records:
            return
        lease.loss_reason = _LOST_BECAUSE.get(reason, reason)
        unread = self._unread(lease) if lease.undecided else ()
        held = without(sorted(_offsets(lease, _held_runs(lease))), sorted(unread))
        if held and self._lease_timers.handed_out_at(lease) is not None:
            self._note_lost(lease, held)
        self._reporter.report(LeaseLost(*self.topic_partition_of(lease.partition), records, reason))

    def last_delivery(self, lease: Lease, limit: int) -> None:
        cause = "acquired for the last time; what isn't accepted isn't delivered again"
        self._reporter.log.records(
            logging.WARNING,
            cause,
            *self.topic_partition_of(lease.partition),
            lease.undecided,
            lease.first,
            lease.last,
            f"delivery {lease.delivery_count} of {limit}",
        )

    def given_back(self, lease: Lease, records: int, left: int, span: tuple[int, int]) -> None:
        """Records of these offsets that nobody has seen were released, or their locks were lost."""
        topic, partition = self.topic_partition_of(lease.partition)
        self._reporter.report(GivenBack(topic, partition, records, left))
        if left >= SAFE_LEFT:
            return
        if left:
            level, cause = logging.WARNING, "given back unseen, with one delivery left"
        else:
            level, cause = (
                logging.ERROR,
                "given back unseen at the delivery count limit; the broker archives them",
            )
        self._reporter.log.records(level, cause, topic, partition, records, *span)

    def oversized(self, lease: Lease, reason: str, limit: int) -> None:
        """Records are kept, because they would decompress to more than the limit."""
        timers = self._lease_timers
        keeps = (
            "They stay locked"
            if timers.can_renew
            else f"Their lock runs out, as it can't be renewed ({timers.no_renewal_because})"
        )
        detail = (
            f"{reason}. This was delivery {lease.delivery_count} of {limit}. {keeps}, and the partition's in-flight "
            f"window can't move past offset {lease.first}: once it is full, nothing more of it is delivered. "
            "Raise max_decompressed_bytes and restart: each restart, and each session that ends, costs a delivery, and "
            "after the last one the broker archives them"
        )
        self._name_oversized("larger than max_decompressed_bytes; not handed out, and kept", lease, detail)

    def stopped(self, lease: Lease, left: int) -> None:
        """Nothing of the partition is fetched any more, because of oversized records in it."""
        detail = f"deliveries left: {left}. Raise max_decompressed_bytes and restart"
        cause = (
            "larger than max_decompressed_bytes; no longer locked, so their partition isn't fetched any more"
        )
        self._name_oversized(cause, lease, detail)

    def _name_oversized(self, cause: str, lease: Lease, detail: str) -> None:
        topic, partition = self.topic_partition_of(lease.partition)
        records = len(lease.states)
        self._reporter.log.records(
            logging.ERROR, cause, topic, partition, records, lease.first, lease.last, detail
        )

    def _note_lost(self, lease: Lease, held: Sequence[tuple[int, int]]) -> None:
        topic, partition = self.topic_partition_of(lease.partition)
        records = sum(last - first + 1 for first, last in held)
        first, last = min(held)[0], max(held)[1]
        records_text = (
            f"offset {first}" if first == last else f"{records} records between offsets {first} and {last}"
        )
        reason = f"{topic}[{partition}], {records_text}: {lease.loss_reason}"
        lease.held_losses += held
        self._commits.on_loss(lease, AcknowledgeError(reason))

    # --- renewals

    def not_renewed(self, outcome: AckOutcome) -> None:
        records = sum(lease.undecided for lease in outcome.not_renewed)
        cause = "lock not renewed: the group forbids it, or the lock has expired"
        self._reporter.log.records(
            logging.WARNING, cause, *self.topic_partition_of(outcome.partition), records
        )

    def not_renewable(self, lease: Lease) -> None:
        """It will be renewed no more."""
        timers = self._lease_timers
        reason = "held for max_lease_seconds" if timers.can_renew else timers.no_renewal_because
        cause = f"lock is not renewed ({reason}); will be redelivered unless acknowledged before it expires"
        self._log_records(cause, lease, _held_runs(lease))

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

    def _log_records(self, cause: str, lease: Lease, runs: list[tuple[int, int]]) -> None:
        """`runs`: start and end index of the records that the line is about."""
        if not runs:
            return
        topic, partition = self.topic_partition_of(lease.partition)
        records = sum(end - start for start, end in runs)
        first, last = lease.first + min(runs)[0], lease.first + max(runs)[1] - 1
        self._reporter.log.records(logging.WARNING, cause, topic, partition, records, first, last)


def _held_runs(lease: Lease) -> list[tuple[int, int]]:
    """Start and end index of what is held and undecided."""
    return lease.runs_in(lease.first, lease.last, UNDECIDED)


def _offsets(lease: Lease, runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """First and last offset of these runs."""
    return [(lease.first + start, lease.first + end - 1) for start, end in runs]


def outcome_error(outcome: AckOutcome) -> KshareError | None:
    """The error for users; None if there is none."""
    if outcome.is_open:
        return ConnectionLost("the connection broke before the response came: the outcome is open")
    if not outcome.error:
        return None
    return BrokerError(outcome.error, "acknowledgement refused", _REFUSED_BECAUSE.get(outcome.error))
