"""All that a consumer holds: batches that wait for the user, leases, and what became of acknowledgements.

Shared by the tasks of one consumer, all in one event loop: no locks. Decides what reaches the user (never what was
accepted before, never what has run out) and what is reported as lost. Sends nothing.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager

from kshare.client.arrivals import Arrival, Brought
from kshare.client.config import MOST_BYTES
from kshare.client.confirmation import Confirmation, Loss, Results, note
from kshare.client.observer import (
    Finished,
    LeaseLost,
    LeaseRenewed,
    LossReason,
    Reporter,
    Settled,
    Skipped,
)
from kshare.client.record import Reads, ShareBatch, lease_of, set_can_renew
from kshare.client.signals import Signal
from kshare.errors import AcknowledgeError, BrokerError, ConnectionLost, KshareError
from kshare.net.clock import suspended_s
from kshare.protocol.error_codes import ErrorCode, error_name
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.state.accepted import AcceptedMemory
from kshare.state.acks import Outcome, PartitionAcks
from kshare.state.lease import ACCEPT, HELD, LOST, RELEASE, RENEW, SENT, SETTLED, Lease, Partition, Tally
from kshare.state.leases import RENEW_AFTER, LeaseKeeper
from kshare.state.pace import Pace
from kshare.state.session import AckRange

_SUSPENDED_S = 0.01
"""Less is the noise of reading two clocks."""


class Holdings:
    """`arrived` is sent whenever a batch could be handed out, `changed` when something was decided or there is room.

    What is asked of brokers goes by it: it is their planner's `Demand`.
    """

    def __init__(
        self,
        *,
        most: int,
        keeper: LeaseKeeper,
        clock: Callable[[], float],
        reader: Reads | None = None,
        can_renew: bool = True,
        reporter: Reporter | None = None,
        most_bytes: int = MOST_BYTES,
        suspended: Callable[[], float] = suspended_s,
    ) -> None:
        """`suspended` tells for how many seconds `clock` stood still so far, while the machine slept."""
        self.pace = Pace(most)
        self.changed = Signal()
        self.tally = Tally(self.changed.send)
        self.keeper = keeper
        self.memory = AcceptedMemory()
        self.sources = 1
        """Brokers that are fetched from: they share what room there is."""
        self.askers = 0
        """Tasks of the user's that wait for a batch."""
        self._confirming = 0
        """Those that wait for acknowledgements to be confirmed."""
        self.confirmations: list[Confirmation] = []
        """What each of those waits for, where they don't wait for everything."""
        self.has_committed = False
        """Somebody did, and may do so again any moment."""
        self.results: Results = {}
        """Since the last commit, by partition: None where all was confirmed, or what went wrong last."""
        self.losses: list[Loss] = []
        """Likewise: leases that were lost with records in the user's hands of which nothing was said."""
        self.release_unattended: Callable[[Lease], int] = lambda lease: 0
        """Releases what was opened by a loop that has ended, and is in nobody's hands; says how many records."""
        self.skipped = 0
        """Records accepted before that came back and were accepted again, without reaching the user."""
        self.reporter = reporter or Reporter()
        self._names: dict[bytes, str] = {}
        self._topics: Container[str] | None = None
        self.clock = clock
        self._suspended = suspended
        self._suspended_s = suspended()
        self._most_bytes = most_bytes
        self._books: list[dict[Partition, PartitionAcks]] = []
        self._is_stalled = False
        """The user doesn't come back before locks are over: what is fetched meanwhile costs deliveries, and goes back
        unseen."""
        self._lock_s = math.inf
        self._reader = reader
        self._can_renew = can_renew
        self._waiting: deque[Arrival] = deque()
        self.arrived = Signal()

    # --- demand

    @property
    def is_asked(self) -> bool:
        """The user waits for more: whatever is undecided is in its hands."""
        return self.askers > 0 and not self._waiting

    @property
    def wants_more(self) -> bool:
        if self._is_stalled or self._outlasts_locks:
            return self.is_asked
        wants = self.pace.wants(self.tally.undecided, is_waiting=self.is_asked)
        return wants and self.bytes_left > 0

    @property
    def _outlasts_locks(self) -> bool:
        """One record takes the user longer than another may wait for it."""
        rate = self.pace.rate
        return 0 < rate * RENEW_AFTER * self._lock_s < 1

    @property
    def bytes_left(self) -> int:
        """How many bytes of records may be held beside those that are."""
        if not self.tally.undecided:
            return self._most_bytes
        return max(0, self._most_bytes - self.keeper.size_held(self._most_bytes))

    @property
    def room(self) -> int:
        """How many records to ask a broker for."""
        return self.pace.room(self.tally.undecided, self.sources, is_waiting=self.is_asked)

    @property
    def room_in_bytes(self) -> int:
        """How many bytes."""
        return max(1, self.bytes_left // max(1, self.sources))

    @property
    def undecided(self) -> int:
        return self.tally.undecided

    @property
    def few(self) -> int:
        return self.pace.few

    @property
    def is_confirming(self) -> bool:
        return self._confirming > 0

    @property
    def rate(self) -> float:
        return self.pace.rate

    @property
    def handed_at(self) -> float:
        return self.pace.handed_at

    @property
    def leases_at(self) -> float:
        return self.keeper.wake_at

    # --- time

    def stamp(self) -> float:
        """Now, on a clock that runs on while the machine is suspended."""
        return self.clock() + self._suspended()

    def time_of(self, stamp: float) -> float:
        """When that was, on the clock that stands still: what lies before a suspension lies further back."""
        return stamp - self._suspended()

    def _now(self) -> float:
        """After a suspension, locks are over that much sooner."""
        suspended = self._suspended()
        if suspended - self._suspended_s > _SUSPENDED_S:
            self.keeper.on_suspended(suspended - self._suspended_s)
            self._suspended_s = suspended
        return self.clock()

    # --- in

    def open_books(self) -> dict[Partition, PartitionAcks]:
        """What one broker's session holds: looked after by whichever session has its turn."""
        books: dict[Partition, PartitionAcks] = {}
        self._books.append(books)
        return books

    def add(
        self, topic: str, acks: PartitionAcks, data: PartitionData, lock_s: float, sent_at: float
    ) -> None:
        """One partition's part of the answer to a fetch that was sent then."""
        self._now()
        self._names[acks.partition[0]] = topic
        self._lock_s = lock_s or self._lock_s
        brought = Brought(data, topic, self.reporter)
        size, count = len(data.records or b""), brought.count
        for acquired in brought.acquired:
            first, last = acquired.first_offset, acquired.last_offset
            lease = Lease(acks.partition, first, last, acquired.delivery_count, tally=self.tally)
            self._note_losses_to(lease, acks)
            self._on_lost_to_itself(acks.partition, *acks.add(lease))
            self.keeper.add(lease, lock_s, sent_at, size * (last - first + 1) // count)
            arrival = Arrival(topic, lease, brought)
            if self.memory and arrival.look():
                self._accept_again(lease)
            if self._topics is not None and topic not in self._topics:
                lease.decide_held(RELEASE)
            if lease.undecided:
                self._waiting.append(arrival)
                self.arrived.send()

    def _note_losses_to(self, lease: Lease, acks: PartitionAcks) -> None:
        """What the user still has of records that came again."""
        for older in acks.leases if lease.delivery_count > 1 else ():
            held = older.runs_within(lease.first, lease.last, HELD, HELD)
            if held and self.keeper.handed_at(older) is not None:
                older.why_lost = _LOST_BECAUSE["expired"]
                self._note_lost(older, sum(end - start for start, end in held))

    def _on_lost_to_itself(self, partition: Partition, lost: int, outcomes: list[Outcome]) -> None:
        """What the broker gives again it has taken back before: its locks ran out sooner than we thought."""
        if lost:
            place = self.place_of(partition)
            cause = "delivered again while they were held: their lock had expired at the broker"
            self.reporter.log.records(logging.WARNING, cause, *place, lost)
            self.reporter.tell(LeaseLost(*place, lost, "expired"))
            self.on_outcomes(outcomes)

    def _accept_again(self, lease: Lease) -> None:
        before = self.skipped
        for first, last, epoch in lease.epochs:
            for span in self.memory.known(
                lease.partition, epoch, max(first, lease.first), min(last, lease.last)
            ):
                for offset in range(span.first, span.last + 1):
                    self.skipped += lease.decide(offset, ACCEPT)
        if self.skipped > before:
            self.reporter.tell(Skipped(*self.place_of(lease.partition), self.skipped - before))

    # --- to the user

    def next_batch(self) -> ShareBatch | None:
        """The next that may still be handed out."""
        now = self._now()
        self.pace.on_asked(now)
        self._is_stalled = False
        while self._waiting:
            arrival = self._waiting.popleft()
            # What was given back or lost meanwhile needs no look.
            batch = self._open(arrival) if arrival.lease.undecided else None
            if batch is not None and len(batch) and self.keeper.hand_out(lease_of(batch), now):
                self.pace.on_handed(len(batch), now)
                return batch
        return None

    def _open(self, arrival: Arrival) -> ShareBatch | None:
        """None if there is nothing in it that can be handed out."""
        batches = arrival.look()
        if not batches:
            return None
        opened = ShareBatch(arrival.topic, arrival.lease, batches, self._reader)
        set_can_renew(opened, self._can_renew)
        return opened

    def keep_only(self, topics: Container[str]) -> None:
        """What is of another topic isn't handed out from now on: it is given back, be it waiting or on its way."""
        self._topics = topics
        for arrival in list(self._waiting):
            if arrival.topic not in topics:
                arrival.lease.decide_held(RELEASE)
                self._waiting.remove(arrival)

    def forget_topic(self, topic_id: bytes) -> None:
        """Deleted: nothing of it comes back to be accepted again."""
        self.memory.forget_topic(topic_id)

    def stop_acquiring(self) -> None:
        """No more is asked for, whatever becomes of what is held; what nobody was given yet is given back."""
        self.pace.most = 0
        self.keep_only(())

    async def wait_for_arrival(self, ask: Callable[[], None]) -> None:
        """Until there may be a batch; `ask` is called when it is known that the user waits for one."""
        arrived = self.arrived.next()
        self.askers += 1
        try:
            ask()
            await arrived.wait()
        finally:
            self.askers -= 1

    # --- confirmations

    @contextmanager
    def confirming(self) -> Iterator[None]:
        """While somebody waits for acknowledgements to be confirmed: they leave at once."""
        self._confirming += 1
        try:
            yield
        finally:
            self._confirming -= 1

    @contextmanager
    def confirmation(self, leases: Iterable[Lease]) -> Iterator[Confirmation]:
        """Of what is decided of these by now, and of what became known before. Left by an error, the next tells it."""
        confirmation = Confirmation(leases)
        confirmation.results, self.results = self.results, {}
        confirmation.losses, self.losses = self.losses, []
        self.confirmations.append(confirmation)
        self.has_committed = True
        try:
            with self.confirming():
                yield confirmation
        except BaseException:
            for partition, error in confirmation.results.items():
                note(self.results, partition, error)
            self.losses += confirmation.losses
            raise
        finally:
            self.confirmations.remove(confirmation)

    # --- out

    def on_answered(self, acks: PartitionAcks, error: int, sent_at: float) -> None:
        """The broker's word on what is under way of a partition, and was sent then."""
        outcomes = acks.on_answer(error)
        for outcome in outcomes:
            for lease in outcome.renewed:
                self.keeper.on_renewed(lease, sent_at)
            if outcome.given_up:
                place = self.place_of(acks.partition)
                cause = "given up as lost: all acknowledgements of their leases were refused"
                self.reporter.log.records(
                    logging.WARNING, cause, *place, outcome.given_up, detail=error_name(error)
                )
                self.reporter.tell(LeaseLost(*place, outcome.given_up, "expired"))
        self.on_outcomes(outcomes)
        self.forget(acks)

    def on_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """The broker's word on acknowledgements, or that there is none."""
        for outcome in outcomes:
            error = outcome_error(outcome) if outcome.error or outcome.is_open else None
            if outcome.not_renewed:
                place = self.place_of(outcome.partition)
                records = sum(lease.undecided for lease in outcome.not_renewed)
                cause = "lock not renewed: the group forbids it, or the lock has expired"
                self.reporter.log.records(logging.WARNING, cause, *place, records)
                for lease in outcome.not_renewed:
                    self.keeper.on_not_renewed(lease)
            else:
                self._note_outcome(outcome, error)
            if self.reporter.wants_outcomes:
                place = self.place_of(outcome.partition)
                self.reporter.tell(Settled(*place, outcome.ranges, error, outcome.is_open))
            for lease in outcome.renewed:
                self.reporter.tell(LeaseRenewed(*self.place_of(outcome.partition), lease.undecided))
            if error is None and self.memory:
                for ack in outcome.ranges:
                    self.memory.confirm(outcome.partition, ack.first, ack.last)

    def _note_outcome(self, outcome: Outcome, error: KshareError | None) -> None:
        """For the commits that wait for it, otherwise for the next one."""
        if self.confirmations:
            ranges = [(ack.first, ack.last) for ack in outcome.ranges]
            # Every one of them is to hear of it: no short cut.
            heard = [one.on_outcome(outcome.partition, ranges, error) for one in self.confirmations]
            self.changed.send()
            if any(heard):
                return
        note(self.results, outcome.partition, error)

    def on_too_late(self, lease: Lease, lost: Iterable[tuple[int, int]]) -> None:
        """A loop would have accepted these, but they are lost: nothing is raised there, so it is told as an outcome."""
        ranges = tuple(AckRange(first, last, bytes([ACCEPT])) for first, last in lost)
        self.on_outcomes([Outcome(lease.partition, ranges, ErrorCode.INVALID_RECORD_STATE)])

    def forget(self, acks: PartitionAcks) -> None:
        """Leases that are done, settled or lost."""
        done = acks.forget_done()
        if self.reporter.is_on:
            self._report_finished(done)
        self.keeper.remove(done)

    def lose(self, acks: PartitionAcks, why: LossReason = "session") -> None:
        """The session is gone. What the user has accepted is remembered, in case it comes back."""
        self._report_lost(acks.leases, why)
        self.remember(acks)
        self.keeper.remove(acks.leases)
        self.on_outcomes(acks.lose())
        self.changed.send()

    def remember(self, acks: PartitionAcks) -> None:
        """What the user has accepted and nobody confirmed: it may come back."""
        for lease in acks.leases:
            for first, last, epoch in lease.accepted():
                self.memory.remember(lease.partition, epoch, first, last)

    def look_after_leases(self) -> None:
        """Renew what is worked on, give back what waits too long, lose what has run out; of all brokers."""
        now = self._now()
        if now < self.keeper.wake_at:
            return
        due = self.keeper.due(now)
        for lease in due.renew:
            if self.release_unattended(lease):
                self._is_stalled = True
            lease.decide_held(RENEW)
        for lease in due.release:
            lease.decide_held(RELEASE)
            self._is_stalled = True
        for lease in due.capped:
            why = (
                "held for too long"
                if self.keeper.can_renew
                else "renew_leases is off, or Kafka is older than 4.2"
            )
            cause = f"lock is not renewed ({why}); will be redelivered unless settled before it expires"
            self._log_lease(cause, lease, lease.undecided)
        for acks in [acks for books in self._books for acks in books.values()]:
            self._report_lost((lease for lease in acks.leases if lease.deadline <= now), "expired")
            late, outcomes = acks.expire(now)
            if late:
                self._is_stalled = True
            self.keeper.remove(late)
            self.on_outcomes(outcomes)
            self.forget(acks)

    # --- telling

    def place_of(self, partition: Partition) -> tuple[str, int]:
        topic_id, number = partition
        return self._names.get(topic_id) or topic_id.hex(), number

    def _report_finished(self, leases: Iterable[Lease]) -> None:
        now = self.clock()
        for lease in leases:
            handed_at = self.keeper.handed_at(lease)
            if handed_at is not None and lease.count(SETTLED) == len(lease.states):
                self.reporter.tell(
                    Finished(*self.place_of(lease.partition), len(lease.states), now - handed_at)
                )

    def _report_lost(self, leases: Iterable[Lease], why: LossReason) -> None:
        """Before they are: what is neither settled nor lost by now."""
        for lease in leases:
            records = len(lease.states) - lease.count(SETTLED) - lease.count(LOST)
            if why == "expired":
                # What is under way isn't lost yet: its answer says what became of it.
                records = lease.count(HELD) + lease.count_between(ACCEPT, RENEW)
                if records:
                    self._log_lease("lock expired; will be redelivered", lease, records)
            if not records:
                continue
            lease.why_lost = _LOST_BECAUSE.get(why, why)
            if lease.undecided and self.keeper.handed_at(lease) is not None:
                self._note_lost(lease, lease.undecided)
            self.reporter.tell(LeaseLost(*self.place_of(lease.partition), records, why))

    def _log_lease(self, cause: str, lease: Lease, records: int) -> None:
        place = self.place_of(lease.partition)
        self.reporter.log.records(logging.WARNING, cause, *place, records, lease.first, lease.last)

    def _note_lost(self, lease: Lease, records: int) -> None:
        """Records in the user's hands, of which nothing was said yet: the next commit says so, and those that wait."""
        topic, partition = self.place_of(lease.partition)
        held = [run for state in (HELD, RENEW, SENT | RENEW) for run in lease.runs(state, state)]
        first, last = lease.first + min(held)[0], lease.first + max(held)[1] - 1
        which = (
            f"offset {first}" if first == last else f"{records} records between offsets {first} and {last}"
        )
        error = AcknowledgeError(f"{topic}[{partition}]: the lock of {which} is lost: {lease.why_lost}")
        for losses in [one.losses for one in self.confirmations] or [self.losses]:
            losses.append((lease, error))


_LOST_BECAUSE = {
    "expired": "it ran out; they will be redelivered",
    "session": "the session with the broker ended; they will be redelivered",
    "moved": "the leader of the partition moved; they will be redelivered",
    "topic": "the topic was deleted",
}
"""As users are told it."""


def outcome_error(outcome: Outcome) -> KshareError | None:
    """As users are told it."""
    if outcome.is_open:
        return ConnectionLost("the connection broke before the answer came: the outcome is open")
    return BrokerError(outcome.error, "acknowledgement refused") if outcome.error else None
