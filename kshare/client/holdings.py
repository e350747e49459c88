"""What a consumer holds for its user: fetched partitions that wait to be handed out, and how much more is wanted.

The consumer's `Holder`: the engine asks and tells it. Decides what reaches the user: never what was accepted before,
never what has run out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Sequence

from kshare.client.arrivals import Arrival, Brought
from kshare.client.config import MOST_BYTES
from kshare.client.record import Reads, ShareBatch, lease_of, set_can_renew
from kshare.engine.events import LossReason, Skipped
from kshare.engine.lease_book import LeaseBook
from kshare.engine.reporter import Reporter
from kshare.engine.signals import Signal
from kshare.net.clock import suspended_s
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.state.accepted import AcceptedMemory
from kshare.state.lease import ACCEPT, RELEASE, Lease, Partition
from kshare.state.leases import RENEW_AFTER, LeaseKeeper
from kshare.state.pace import Pace
from kshare.state.session import AckRange


class Holdings:
    """`arrived` is sent whenever a batch could be handed out, or when nobody needs to wait for one any more."""

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
        release_unattended: Callable[[Lease], int] = lambda lease: 0,
        suspended: Callable[[], float] = suspended_s,
    ) -> None:
        """`can_renew`: whether the brokers can. `clock` and `suspended` are for the `LeaseBook`.

        `release_unattended` releases what was opened by a loop that has ended, and is in nobody's hands; it says how
        many records these were.
        """
        self.book = LeaseBook(self, keeper=keeper, clock=clock, reporter=reporter, suspended=suspended)
        self.arrived = Signal()
        self.pace = Pace(most)
        self.memory = AcceptedMemory()
        self.askers = 0
        """Tasks of the user's that wait for a batch."""
        self.skipped = 0
        """Records accepted before that came back and were accepted again, without reaching the user."""
        self._release_unattended = release_unattended
        self._keeper = keeper
        self._tally = self.book.tally
        self._reporter = self.book.reporter
        self._topics: Container[str] | None = None
        self._most_bytes = most_bytes
        self._is_stalled = False
        """The user doesn't come back before locks are over: what is fetched meanwhile costs deliveries, and goes back
        unseen."""
        self._lock_s = math.inf
        self._reader = reader
        self._can_renew = can_renew
        self._waiting: deque[Arrival] = deque()

    # --- what is wanted

    @property
    def is_asked(self) -> bool:
        """The user waits for more: whatever is undecided is in its hands."""
        return self.askers > 0 and not self._waiting

    @property
    def wants_more(self) -> bool:
        if self._is_stalled or self._outlasts_locks:
            return self.is_asked
        wants = self.pace.wants(self._tally.undecided, is_waiting=self.is_asked)
        return wants and self.bytes_left > 0

    @property
    def _outlasts_locks(self) -> bool:
        """One record takes the user longer than another may wait for it."""
        rate = self.pace.rate
        return 0 < rate * RENEW_AFTER * self._lock_s < 1

    @property
    def bytes_left(self) -> int:
        """How many bytes of records may be held beside those that are."""
        if not self._tally.undecided:
            return self._most_bytes
        return max(0, self._most_bytes - self._keeper.size_held(self._most_bytes))

    def room(self, brokers: int) -> int:
        return self.pace.room(self._tally.undecided, brokers, is_waiting=self.is_asked)

    def room_in_bytes(self, brokers: int) -> int:
        return max(1, self.bytes_left // brokers)

    @property
    def few(self) -> int:
        return self.pace.few

    @property
    def rate(self) -> float:
        return self.pace.rate

    @property
    def handed_at(self) -> float:
        return self.pace.handed_at

    # --- what the engine tells

    def on_acquired(self, topic: str, leases: Sequence[Lease], data: PartitionData, lock_s: float) -> None:
        self._lock_s = lock_s or self._lock_s
        brought = Brought(leases, data, self._reporter)
        for lease in leases:
            arrival = Arrival(topic, lease, brought)
            if self.memory and arrival.look():
                self._accept_again(lease)
            if self._topics is not None and topic not in self._topics:
                lease.decide_held(RELEASE)
            if lease.undecided:
                self._waiting.append(arrival)
                self.arrived.send()

    def _accept_again(self, lease: Lease) -> None:
        before = self.skipped
        for first, last, epoch in lease.epochs:
            for span in self.memory.known(
                lease.partition, epoch, max(first, lease.first), min(last, lease.last)
            ):
                for offset in range(span.first, span.last + 1):
                    self.skipped += lease.decide(offset, ACCEPT)
        if self.skipped > before:
            self._reporter.tell(Skipped(*self.book.place_of(lease.partition), self.skipped - before))

    def on_renewing(self, lease: Lease) -> None:
        if self._release_unattended(lease):
            self._is_stalled = True

    def on_released(self, lease: Lease) -> None:
        self._is_stalled = True

    def on_lost(self, lease: Lease, why: LossReason) -> None:
        if why == "expired":
            self._is_stalled = self._is_stalled or not lease.is_done
        else:
            self._remember(lease)

    def on_moved(self, lease: Lease) -> None:
        self._remember(lease)

    def _remember(self, lease: Lease) -> None:
        """What the user has accepted and nobody confirmed: it may come back."""
        for first, last, epoch in lease.accepted():
            self.memory.remember(lease.partition, epoch, first, last)

    def on_confirmed(self, partition: Partition, ranges: Sequence[AckRange]) -> None:
        if self.memory:
            for ack in ranges:
                self.memory.confirm(partition, ack.first, ack.last)

    def on_session_ended(self) -> None:
        self.pace.on_lost()

    def on_topic_gone(self, topic_id: bytes) -> None:
        self.memory.forget_topic(topic_id)

    def on_failed(self) -> None:
        self.arrived.send()

    # --- to the user

    def next_batch(self) -> ShareBatch | None:
        """The next that may still be handed out."""
        now = self.book.now()
        self.pace.on_asked(now)
        self._is_stalled = False
        while self._waiting:
            arrival = self._waiting.popleft()
            # What was given back or lost meanwhile needs no look.
            batch = self._open(arrival) if arrival.lease.undecided else None
            if batch is not None and len(batch) and self._keeper.hand_out(lease_of(batch), now):
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

    def stop_acquiring(self) -> None:
        """No more is asked for, whatever becomes of what is held; what nobody was given yet is given back."""
        self.pace.most = 0
        self.keep_only(())

    def set_most(self, records: int) -> None:
        """To be held from now on; what is held already stays."""
        self.pace.most = records
        self.book.changed.send()

    async def wait_for_arrival(self, ask: Callable[[], None]) -> None:
        """Until there may be a batch; `ask` is called when it is known that the user waits for one."""
        arrived = self.arrived.next()
        self.askers += 1
        try:
            ask()
            await arrived.wait()
        finally:
            self.askers -= 1
