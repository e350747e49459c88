"""The records that a consumer holds: batches that wait to be handed out, and how many more to fetch.

This is the consumer's `Holder` and `LeaseListener`, which the engine calls. Decides what is handed out to the user:
never records that were accepted before, never records whose lock has expired.
"""

from __future__ import annotations

import math
from bisect import insort_right
from collections.abc import Callable, Container, Sequence
from enum import Enum

from kshare.client.arrivals import FetchedPartition, PendingBatch
from kshare.client.config import DEFAULT_MAX_BYTES
from kshare.client.record import RecordReader, ShareBatch, lease_of
from kshare.engine.events import LossReason, Skipped
from kshare.engine.lease_book import LeaseBook
from kshare.engine.lease_reports import UnreadOf
from kshare.engine.notifier import Notifier
from kshare.engine.reporter import Reporter
from kshare.protocol.compression import DECOMPRESSED_LIMIT
from kshare.protocol.decompression_budget import DecompressionLimit
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.state.lease import ACCEPT, Lease, TopicIdPartition
from kshare.state.lease_timers import RENEW_LOCK_AFTER, LeaseTimers
from kshare.state.processing_rate import ProcessingRate
from kshare.state.session import AckRange
from kshare.state.unconfirmed_accepts import UnconfirmedAccepts


class Intake(Enum):
    """What the user wants to be fetched."""

    ON = "fetch"
    PAUSED = "fetch nothing; what was acquired is still handed out"
    RELEASING = "fetch nothing; what waits to be handed out is released, and so is what still arrives"


class Holdings:
    """`batch_available` is sent when a batch can be handed out, or when waiting for one has become pointless."""

    def __init__(
        self,
        *,
        max_records: int,
        lease_timers: LeaseTimers,
        clock: Callable[[], float],
        reader: RecordReader | None = None,
        can_renew: bool = True,
        reporter: Reporter | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_decompressed_bytes: int = DECOMPRESSED_LIMIT,
        release_unattended: Callable[[Lease], int] = lambda lease: 0,
        unread: UnreadOf = lambda lease: (),
        suspended: Callable[[], float] | None = None,
    ) -> None:
        """`can_renew`: whether the brokers can renew locks. `clock`, `suspended` and `unread` are for the `LeaseBook`.

        `release_unattended` releases the records of a batch that was opened by a loop which has ended since. It returns
        how many these were.
        """
        self.book = LeaseBook(
            self,
            lease_timers=lease_timers,
            clock=clock,
            reporter=reporter,
            suspended=suspended,
            listener=self,
            unread=unread,
        )
        self.batch_available = Notifier()
        self.processing_rate = ProcessingRate(max_records)
        self.memory = UnconfirmedAccepts()
        self.waiters = 0
        """The number of the user's tasks that wait for a batch."""
        self.skipped = 0
        """The number of redelivered records that were accepted again without being handed out, as the user had accepted
        them before."""
        self._release_unattended = release_unattended
        self._lease_timers = lease_timers
        self._counter = self.book.counter
        self._reporter = self.book.reporter
        self._topics: Container[str] | None = None
        self._max_bytes = max_bytes
        self._limit: DecompressionLimit | None = None
        """None for the default, which costs batches no call."""
        if max_decompressed_bytes != DECOMPRESSED_LIMIT:
            self._limit = DecompressionLimit(max_decompressed_bytes)
        self._intake = Intake.ON
        self._is_stalled = True
        """The user hasn't asked for records yet, or didn't ask for more before locks expired. More records would only
        use up deliveries, and be released without having been handed out."""
        self._lock_s = math.inf
        self._reader = reader
        self._can_renew = can_renew
        self._waiting: list[PendingBatch] = []
        """Those that were delivered most often are first."""

    # --- what is wanted

    @property
    def is_user_waiting(self) -> bool:
        """The user waits for records, and so has all that are undecided."""
        return self.waiters > 0 and not self._waiting

    wants_only_ready = False
    """A user who has records works on them, and doesn't wait for more."""

    @property
    def wants_more(self) -> bool:
        if self._intake is not Intake.ON:
            return False
        if self._is_stalled or self._outlasts_locks:
            return self.is_user_waiting
        wants = self.processing_rate.wants(self.undecided, is_waiting=self.is_user_waiting)
        return wants and self.bytes_left > 0

    @property
    def undecided(self) -> int:
        """Without records that stay locked but that nobody can get."""
        return self._counter.undecided - self.book.kept.held

    @property
    def _outlasts_locks(self) -> bool:
        """Whether the user needs more time for one record than the next one may wait in the inbox."""
        rate = self.processing_rate.rate
        return 0 < rate * RENEW_LOCK_AFTER * self._lock_s < 1

    @property
    def bytes_left(self) -> int:
        """How many more bytes of records may be held."""
        if not self._counter.undecided:
            return self._max_bytes
        return max(0, self._max_bytes - self._lease_timers.bytes_held(self._max_bytes))

    def capacity(self, brokers: int) -> int:
        return self.processing_rate.capacity(self.undecided, brokers, is_waiting=self.is_user_waiting)

    def capacity_in_bytes(self, brokers: int) -> int:
        return max(1, self.bytes_left // brokers)

    @property
    def refill_at(self) -> int:
        return self.processing_rate.refill_at

    @property
    def rate(self) -> float:
        return self.processing_rate.rate

    @property
    def handed_out_at(self) -> float:
        return self.processing_rate.handed_out_at

    # --- notifications of the engine

    def on_acquired(self, topic: str, leases: Sequence[Lease], data: PartitionData, lock_s: float) -> None:
        self._lock_s = lock_s or self._lock_s
        fetched = FetchedPartition(leases, data, self.book, self._limit)
        for lease in leases:
            pending = PendingBatch(topic, lease, fetched)
            if self.memory and pending.verify():
                self._accept_again(lease)
            if not self._hands_out(topic):
                self.book.release_unseen(lease)
            if lease.undecided:
                self._add(pending)
                self.batch_available.send()

    def _add(self, pending: PendingBatch) -> None:
        """Behind what was delivered as often, or more often: what has few deliveries left is handed out first.

        Whenever a consumer ends, what it hasn't handed out loses a delivery. In the order of arrival, the same records
        could be behind others each time, until nobody has seen them and the broker archives them.
        """
        if not self._waiting or self._waiting[-1].lease.delivery_count >= pending.lease.delivery_count:
            self._waiting.append(pending)
        else:
            insort_right(self._waiting, pending, key=lambda waiting: -waiting.lease.delivery_count)

    @property
    def most_delivered(self) -> int:
        """The highest delivery count of what waits to be handed out; 0 if nothing does. May be read in any thread.

        It is too high if that was lost or released meanwhile: `look_again` knows.
        """
        try:
            return self._waiting[0].lease.delivery_count
        except IndexError:
            return 0

    def look_again(self) -> int:
        """`most_delivered` of what is still held. In the event loop alone."""
        while self._waiting and not self._waiting[0].lease.undecided:
            del self._waiting[0]
        return self.most_delivered

    def _hands_out(self, topic: str) -> bool:
        is_wanted = self._topics is None or topic in self._topics
        return is_wanted and self._intake is not Intake.RELEASING

    def _accept_again(self, lease: Lease) -> None:
        skipped_before = self.skipped
        for first, last, epoch in lease.leader_epochs:
            known = self.memory.known(lease.partition, epoch, max(first, lease.first), min(last, lease.last))
            for start, end in known:
                for offset in range(start, end + 1):
                    self.skipped += lease.decide(offset, ACCEPT)
        if skipped := self.skipped - skipped_before:
            self._reporter.report(Skipped(*self.book.topic_partition_of(lease.partition), skipped))

    def on_renewing(self, lease: Lease) -> None:
        released = self._release_unattended(lease)
        if released:
            self.book.note_unseen(lease, released)
            self._is_stalled = True

    def on_released(self, lease: Lease) -> None:
        self._is_stalled = True

    def on_lost(self, lease: Lease, reason: LossReason) -> None:
        if reason == "expired":
            self._is_stalled = self._is_stalled or not lease.is_done
        else:
            self._remember(lease)

    def on_moved(self, lease: Lease) -> None:
        self._remember(lease)

    def _remember(self, lease: Lease) -> None:
        """Remember what the user accepted and no broker confirmed: it may be redelivered."""
        for first, last, epoch in lease.accepted():
            self.memory.remember(lease.partition, epoch, first, last)

    def on_confirmed(self, partition: TopicIdPartition, ranges: Sequence[AckRange]) -> None:
        if self.memory:
            for ack in ranges:
                self.memory.confirm(partition, ack.first, ack.last)

    def on_session_ended(self) -> None:
        self.processing_rate.on_lost()

    def on_topic_gone(self, topic_id: bytes) -> None:
        self.memory.forget_topic(topic_id)

    # --- for the user

    def next_batch(self) -> ShareBatch | None:
        """The next batch with records that are still held."""
        now = self.book.now()
        self.processing_rate.on_next_requested(now)
        self._is_stalled = False
        while self._waiting:
            pending = self._waiting.pop(0)
            self._skip_known(pending)
            # Don't decode what was released or lost meanwhile.
            batch = self._open(pending) if pending.lease.undecided else None
            if batch is not None and len(batch) and self._lease_timers.hand_out(lease_of(batch), now):
                self.processing_rate.on_handed_out(len(batch), now)
                self.book.unseen.on_seen(pending.lease.partition)
                return batch
        return None

    def _skip_known(self, pending: PendingBatch) -> None:
        """The user may have accepted its records in the session with the former leader, since they were acquired."""
        lease = pending.lease
        if lease.delivery_count > 1 and lease.undecided:
            for older in self.book.older_leases(lease):
                self._remember(older)
            if self.memory and pending.verify():
                self._accept_again(lease)

    def _open(self, pending: PendingBatch) -> ShareBatch | None:
        """None if none of its records can be handed out."""
        batches = pending.verify()
        if not batches:
            return None
        return ShareBatch(pending.topic, pending.lease, batches, self._reader, self._can_renew)

    def keep_only(self, topics: Container[str]) -> None:
        """From now on, hand out only records of these topics. Others are released, including those still to arrive."""
        self._topics = topics
        self._release_unwanted()

    def _release_unwanted(self) -> None:
        for pending in list(self._waiting):
            if not self._hands_out(pending.topic):
                self.book.release_unseen(pending.lease)
                self._waiting.remove(pending)

    @property
    def is_paused(self) -> bool:
        return self._intake is not Intake.ON

    def pause(self, *, release: bool = False) -> None:
        """Stop fetching. What has been acquired is still handed out, or released with `release`."""
        self._intake = Intake.RELEASING if release else Intake.PAUSED
        if release:
            self._release_unwanted()

    def resume(self) -> None:
        if self.is_paused:
            self._intake = Intake.ON
            self.book.changed.send()

    @property
    def has_waiting(self) -> bool:
        """Whether records wait to be handed out."""
        return any(pending.lease.undecided for pending in self._waiting)

    def set_most(self, records: int) -> None:
        """Set the maximum number of held records. Those already held are kept."""
        self.processing_rate.max_records = records
        self.book.changed.send()

    async def wait_for_batch(self, request_more: Callable[[], None]) -> None:
        """Wait until a batch may be available. `request_more` is called once the user counts as waiting."""
        batch_available = self.batch_available.next()
        self.waiters += 1
        try:
            request_more()
            await batch_available.wait()
        finally:
            self.waiters -= 1
