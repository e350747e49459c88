"""All leases of a member: acquires, renews and settles them, and counts them as lost when they expire.

Shared by the sessions of one member, all in one event loop: no locks. Tells the holder of the records what becomes of
them. Decides what is reported as lost; never who gets records, and sends nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from weakref import WeakSet

from kshare.engine.commits import Commits
from kshare.engine.events import LossReason
from kshare.engine.holder import Holder, LeaseListener
from kshare.engine.lease_reports import LeaseReports, UnreadOf, outcome_error
from kshare.engine.lock_clock import LockClock
from kshare.engine.notifier import Notifier
from kshare.engine.reporter import Reporter
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.state.acks import AckOutcome, PartitionAcks
from kshare.state.coverage import wrong_ranges
from kshare.state.doubted_batches import DoubtedBatches
from kshare.state.kept_records import KeptRecords, KeptSpans
from kshare.state.lease import (
    ACCEPT,
    HELD,
    RELEASE,
    RENEW,
    Lease,
    TopicIdPartition,
    UndecidedCounter,
    state_ranges,
)
from kshare.state.lease_timers import LeaseTimers
from kshare.state.session import MOVED, AckRange
from kshare.state.unseen_releases import UnseenReleases

_COUNTED: tuple[LossReason, ...] = ("session", "expired")
"""Losses that count as a delivery: since Kafka 4.2, the end of a session does."""
SessionLeases = dict[TopicIdPartition, PartitionAcks]
"""The leases of one session, by partition."""


class LeaseBook:
    """`changed` is sent when records are decided, confirmed or lost, and when there is capacity for more."""

    def __init__(
        self,
        holder: Holder,
        *,
        lease_timers: LeaseTimers,
        clock: Callable[[], float],
        reporter: Reporter | None = None,
        suspended: Callable[[], float] | None = None,
        listener: LeaseListener | None = None,
        unread: UnreadOf = lambda lease: (),
    ) -> None:
        """`clock` is the event loop's; `suspended` returns for how many seconds it has not advanced so far.

        Pass `listener` and `unread` if records wait for the user after they were acquired.
        """
        self.holder = holder
        self._listener = listener
        self._unread = unread
        self.lease_timers = lease_timers
        self.reporter = reporter or Reporter()
        self.clock = LockClock(clock, suspended)
        self.changed = Notifier()
        self.counter = UndecidedCounter(self.changed.send)
        self.commits = Commits(self.changed)
        self.unseen = UnseenReleases()
        """Sessions fetch nothing from the partitions that are paused by these."""
        self._known_limit: int | None = None
        """The delivery count limit, once a broker was asked for it."""
        self._names_last_deliveries = True
        self.has_redelivered = False
        """Whether records were acquired that had been delivered before: they may be near the delivery count limit."""
        self.on_redelivered: Callable[[], None] = lambda: None
        """Called when that is so for the first time."""
        self.kept = KeptRecords()
        self.doubted = DoubtedBatches()
        self._reports = LeaseReports(self.reporter, lease_timers, self.commits, unread)
        self._sessions: list[SessionLeases] = []
        _books.add(self)

    def topic_partition_of(self, partition: TopicIdPartition) -> tuple[str, int]:
        """The topic's name, which is known once records of it were acquired, and the partition number."""
        return self._reports.topic_partition_of(partition)

    def now(self) -> float:
        """After a suspension, locks expire earlier by that time."""
        slept = self.clock.slept()
        if slept:
            self.lease_timers.on_suspended(slept)
        return self.clock.now()

    # --- in

    def open_session(self) -> SessionLeases:
        """Leases for the session with one broker. Any session may renew and expire them."""
        partition_acks: SessionLeases = {}
        self._sessions.append(partition_acks)
        return partition_acks

    def acquire(
        self, topic: str, acks: PartitionAcks, data: PartitionData, lock_s: float, sent_at: float
    ) -> None:
        """Take the part of a fetch response that belongs to one partition. The fetch was sent at `sent_at`."""
        self.now()
        self._reports.learn(acks.partition[0], topic)
        ranges = self._plausible_ranges(topic, data)
        size = len(data.records or b"")
        count = sum(range_.last_offset - range_.first_offset + 1 for range_ in ranges)
        leases = []
        for acquired in ranges:
            first, last = acquired.first_offset, acquired.last_offset
            lease = Lease(acks.partition, first, last, acquired.delivery_count, counter=self.counter)
            if lease.delivery_count > 1:
                self._reports.came_again(lease, acks.overlapping(lease.first, lease.last))
                self._note_last_delivery(lease)
                if not self.has_redelivered:
                    self.has_redelivered = True
                    self.on_redelivered()
            lost, outcomes = acks.add(lease)
            if lost:
                self._reports.expired_unnoticed(acks.partition, lost)
                self.on_outcomes(outcomes)
            self.lease_timers.add(lease, lock_s, sent_at, size * (last - first + 1) // count)
            leases.append(lease)
        self.holder.on_acquired(topic, leases, data, lock_s)

    def older_leases(self, lease: Lease) -> Iterator[Lease]:
        """Other leases with records of this one: the session with the partition's former leader may still have them,
        and acknowledgements that have no outcome yet."""
        for partition_acks in self._sessions:
            acks = partition_acks.get(lease.partition)
            if acks is not None:
                yield from (
                    older for older in acks.overlapping(lease.first, lease.last) if older is not lease
                )

    def set_limit(self, limit: int) -> None:
        """The caller knows the limit, and looks after last deliveries itself: they aren't logged."""
        self.unseen.limit = limit
        self._names_last_deliveries = False

    def learn_limit(self, limit: int | None) -> None:
        """The group's delivery count limit, as a broker says; None if it doesn't say, which leaves what was assumed."""
        if limit is not None:
            self.unseen.limit = limit
        if self._known_limit == self.unseen.limit:
            return
        self._known_limit = self.unseen.limit
        for partition_acks in self._sessions:
            for acks in partition_acks.values():
                for lease in acks.leases:
                    self._note_last_delivery(lease)

    def _note_last_delivery(self, lease: Lease) -> None:
        """Before anybody sees them: a program that they crash logs nothing afterwards."""
        limit = self._known_limit
        if not self._names_last_deliveries or limit is None:
            return
        if lease.undecided and lease.delivery_count >= limit:
            self._reports.last_delivery(lease, limit)

    def _plausible_ranges(self, topic: str, data: PartitionData) -> Sequence[AcquiredRecords]:
        """The plausible ranges. Nothing is known of the others, not even that they were acquired."""
        acquired = data.acquired_records
        problems = wrong_ranges([(range_.first_offset, range_.last_offset) for range_ in acquired])
        for reason in problems.values():
            self.reporter.ignored(topic, data.partition_index, reason)
        return (
            [range_ for index, range_ in enumerate(acquired) if index not in problems]
            if problems
            else acquired
        )

    # --- out

    def on_responded(self, acks: PartitionAcks, error: int, sent_at: float, lock_s: float = 0.0) -> None:
        """The broker's response to the acknowledgements of a partition that were sent at `sent_at`.

        `lock_s`: how long it locks records that it renews; 0 if it doesn't say.
        """
        if error in MOVED and self._listener is not None:
            for lease in acks.leases:
                self._listener.on_moved(lease)
        outcomes = acks.on_response(error)
        for outcome in outcomes:
            for lease in outcome.renewed:
                self.lease_timers.on_renewed(lease, sent_at, lock_s)
            if outcome.given_up:
                self._reports.given_up(outcome, error)
        self.on_outcomes(outcomes)
        self.forget(acks)

    def on_outcomes(self, outcomes: Iterable[AckOutcome]) -> None:
        """Acknowledgements were confirmed or refused, or got no response."""
        for outcome in outcomes:
            if outcome.locks_lost:
                self._reports.locks_lost(outcome)
                continue
            error = outcome_error(outcome) if outcome.error or outcome.is_open else None
            if outcome.not_renewed:
                self._reports.not_renewed(outcome)
                for lease in outcome.not_renewed:
                    self.lease_timers.on_not_renewed(lease)
            else:
                self.commits.on_outcome(outcome, error)
            self._reports.settled(outcome, error)
            if error is None:
                self.holder.on_confirmed(outcome.partition, outcome.ranges)

    def release_unseen(self, lease: Lease, spans: Iterable[tuple[int, int]] | None = None) -> int:
        """Release held records that nobody has seen: those of these offsets, or all. Returns how many these were.

        Nothing more of their partition is acquired for a while: see `UnseenReleases`.
        """
        before = lease.undecided
        if spans is None:
            lease.decide_held(RELEASE)
        else:
            for first, last in spans:
                lease.decide_held_within(first, last, RELEASE)
        released = before - lease.undecided
        if released:
            self.note_unseen(lease, released)
        return released

    def keep_unseen(self, lease: Lease, spans: Sequence[tuple[int, int]]) -> float:
        """Release these records, which can't be handed out, when their partition's pause is over. Returns in how long.

        Released at once, they would be acquired by another member, and be archived within milliseconds.
        """
        now = self.clock.now()
        price = self.unseen.on_released(lease.partition, lease.delivery_count, now)
        self.kept.add(lease, spans, now + price.pause_s)
        self.lease_timers.keep(lease)
        return price.pause_s

    def keep_oversized(self, lease: Lease, spans: Iterable[tuple[int, int]], reason: str) -> int:
        """Keep these records for good, which are valid but too large to be handed out. Returns how many are kept.

        They get leases of their own: the rest of the lease is handed out and settled as usual. Released, they would be
        archived at the delivery count limit.
        """
        held = [span for first, last in spans for span in lease.spans_in(first, last, state_ranges([HELD]))]
        acks = self._acks_of(lease)
        if acks is None:
            return 0
        for first, last in held:
            part = Lease(lease.partition, first, last, lease.delivery_count, counter=self.counter)
            acks.add(part)
            self.lease_timers.keep_for_good(part, lease)
            self.kept.add(part, [(part.first, part.last)], math.inf)
            self._reports.oversized(part, reason, self.unseen.limit)
        return sum(last - first + 1 for first, last in held)

    def _acks_of(self, lease: Lease) -> PartitionAcks | None:
        for partition_acks in self._sessions:
            acks = partition_acks.get(lease.partition)
            if acks is not None and lease in acks.leases:
                return acks
        return None

    def note_unseen(self, lease: Lease, records: int) -> None:
        """Records of the lease are given back that nobody has seen: released just now, or lost."""
        price = self.unseen.on_released(lease.partition, lease.delivery_count, self.clock.now())
        self._reports.given_back(lease, records, price.left, (lease.first, lease.last))

    def release_rest(self, acks: PartitionAcks) -> None:
        """The consumer is closed, and the partition isn't in the session, whose end would release its records."""
        for lease in acks.leases:
            if lease.undecided:
                self._note_unread(lease)
                lease.decide_held(RELEASE)

    def _note_unread(self, lease: Lease) -> None:
        """What nobody has seen of a lease is given back, or lost.

        If a loop has begun it, the partition isn't paused: its records reach the user.
        """
        if not lease.undecided:
            return
        if self.lease_timers.handed_out_at(lease) is None:
            self.note_unseen(lease, lease.undecided)
        else:
            left = self.unseen.left(lease.delivery_count)
            for first, last in self._unread(lease):
                self._reports.given_back(lease, last - first + 1, left, (first, last))

    def on_lock_lost(self, lease: Lease, lost: Iterable[tuple[int, int]]) -> None:
        """A loop would have accepted these, but their locks are lost. Loops don't raise, so report an outcome."""
        ranges = tuple(AckRange(first, last, bytes([ACCEPT])) for first, last in lost)
        outcome = AckOutcome(lease.partition, ranges, ErrorCode.INVALID_RECORD_STATE)
        error = outcome_error(outcome)
        self.commits.on_too_late(outcome, error)
        self._reports.settled(outcome, error)

    def forget(self, acks: PartitionAcks) -> None:
        """Remove leases in which every record is settled or lost."""
        done = acks.forget_done()
        if self.reporter.is_on:
            self._reports.finished(done, self.clock.now())
        self.lease_timers.remove(done)

    # --- losses

    def end_session(self, partition_acks: SessionLeases) -> None:
        """All records that were acquired in this session are lost."""
        if self._listener is not None:
            self._listener.on_session_ended()
        lost = list(partition_acks.values())
        partition_acks.clear()
        for acks in lost:
            self.lose(acks)

    def lose(self, acks: PartitionAcks, reason: LossReason = "session") -> None:
        """Count all leases of a partition as lost."""
        for lease in acks.leases:
            self._report_lost(lease, reason)
        self.lease_timers.remove(acks.leases)
        self.on_outcomes(acks.lose())
        self.kept.forget_lost()
        self.changed.send()

    @property
    def wake_at(self) -> float:
        """When `check_leases` has something to do."""
        return min(self.lease_timers.wake_at, self.kept.wake_at)

    def _release_kept(self, kept: KeptSpans) -> None:
        before = kept.lease.undecided
        for first, last in kept.spans:
            kept.lease.decide_held_within(first, last, RELEASE)
        released = before - kept.lease.undecided
        if released:
            left = self.unseen.left(kept.lease.delivery_count)
            self._reports.given_back(kept.lease, released, left, (kept.lease.first, kept.lease.last))

    def disown(self) -> None:
        """This process was forked from the one that acquired the records: only that one can settle them."""
        for partition_acks in self._sessions:
            for acks in partition_acks.values():
                for lease in acks.leases:
                    lease.disown("they were acquired by the process that this one was forked from")

    def _report_lost(self, lease: Lease, reason: LossReason) -> None:
        if self.lease_timers.is_for_good(lease) and lease.undecided:
            self._on_oversized_lost(lease, reason)
        if reason in _COUNTED and lease.delivery_count > 1:
            self._note_unread(lease)
        self.holder.on_lost(lease, reason)
        self._reports.lost(lease, reason)

    def _on_oversized_lost(self, lease: Lease, reason: LossReason) -> None:
        """If its lock can't be kept, or the next delivery is the last one, no longer acquire it."""
        left = self.unseen.left(lease.delivery_count)
        if reason == "expired" or left <= 1:
            self.unseen.stop(lease.partition)
            self._reports.stopped(lease, left)

    def check_leases(self) -> None:
        """For all brokers: renew leases in use, release those that have waited too long, count expired ones as lost."""
        now = self.now()
        if now < self.wake_at:
            return
        for kept in self.kept.take_due(now):
            self._release_kept(kept)
        due = self.lease_timers.due(now)
        for lease in due.renew:
            if self._listener is not None:
                self._listener.on_renewing(lease)
            lease.decide_held(RENEW)
        for lease in due.release:
            self.release_unseen(lease)
            if self._listener is not None:
                self._listener.on_released(lease)
        for lease in due.not_renewable:
            self._reports.not_renewable(lease)
        for acks in [acks for partition_acks in self._sessions for acks in partition_acks.values()]:
            for lease in acks.leases:
                if lease.deadline <= now:
                    self._report_lost(lease, "expired")
            expired, outcomes = acks.expire(now)
            self.lease_timers.remove(expired)
            self.on_outcomes(outcomes)
            self.forget(acks)


_books: WeakSet[LeaseBook] = WeakSet()


def _disown_all() -> None:
    for book in _books:
        book.disown()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_disown_all)
