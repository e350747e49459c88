"""The records of a handler that aren't settled and not being processed: in order, held back, or waiting for their key.

    acquired → batches → next()          the fast way: nothing is created for a record before it is its turn
             → ready   → next()          records that need a look at first, and those whose time has come
    hold()   → held    → bring_due()     another attempt later; pins the in-flight window, so there is a budget
    hold_copy() → copies → bring_due()   copies in retry topics that aren't due yet; they pin nothing else

No IO and no clock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from itertools import chain

from kshare.client.record import BatchIterator, ShareBatch, ShareRecord, lease_of, spans_of
from kshare.errors import KshareError
from kshare.state.lease import Lease
from kshare.worker.functions.user_functions import is_failure
from kshare.worker.handlers.order import LaneOf
from kshare.worker.host import RunningHandler
from kshare.worker.queue.held_records import HeldBack, TopicPartition
from kshare.worker.queue.key_lanes import KeyLanes
from kshare.worker.records.delivery import Delivery

_LOOK_AGAIN_S = 0.1

Item = ShareRecord | Delivery
"""Records become deliveries only when somebody has to know more about them."""


class WorkQueue:
    def __init__(self, handler: RunningHandler, on_gone: Callable[[Item], None]) -> None:
        """`on_gone` is told what has lost its lock before it was its turn."""
        self._handler = handler
        self._deliver = handler.route.deliver
        self._on_gone = on_gone
        self.held_back: HeldBack[Delivery] = HeldBack()
        """What waits for another attempt, and the windows that it pins."""
        self._copies: HeldBack[Delivery] = HeldBack()
        self._lane_of = handler.route.lane_of
        self._lanes: KeyLanes[Item] = KeyLanes()
        self._keys: dict[ShareRecord, Hashable] = {}
        """The lanes that records are in. The user's function isn't asked twice: it might response differently."""
        self._going: set[ShareRecord] = set()
        """Records that were given up while their handler goes on: their lanes wait for its end."""
        self._batches: deque[tuple[BatchIterator, Lease]] = deque()
        self._ready: deque[Item] = deque()
        self._may_hold_unwritten = False
        self._topic_ids: dict[TopicPartition, bytes] = {}
        """Of the records that were acquired last."""

    @property
    def has_ready(self) -> bool:
        return bool(self._ready or self._batches)

    @property
    def batches(self) -> int:
        """How many batches wait."""
        return len(self._batches)

    @property
    def unavailable(self) -> int:
        """How many of the acquired records can't be processed now."""
        return len(self.held_back) + len(self._lanes)

    @property
    def unsettled(self) -> int:
        """How many records aren't settled, apart from those being processed; batches count as one."""
        return self.unavailable + len(self._ready) + len(self._batches)

    @property
    def held(self) -> int:
        """How many records are held for another attempt."""
        return len(self.held_back)

    @property
    def copies(self) -> int:
        """How many copies from retry topics aren't due yet."""
        return len(self._copies)

    @property
    def next_due(self) -> float | None:
        dues = [due for due in (self.held_back.next_due, self._copies.next_due) if due is not None]
        return min(dues, default=None)

    def has_waiting(self, before: float) -> bool:
        """Whether anything waits for its turn, for its key, or for a copy that couldn't be written, whose lock expires
        before that time."""
        for records, lease in self._batches:
            if lease.deadline < before and (record := self._read(records)) is not None:
                self._ready.append(record)  # only reading shows whether anything is left
        return any(
            lease_of(record_of(item).batch).deadline < before and is_held(item)
            for item in chain(self._ready, self._lanes, self._unwritten())
        )

    def _unwritten(self) -> list[Delivery]:
        """Held records whose copies couldn't be written."""
        found = (
            [delivery for delivery in self.held_back if delivery.pending is not None]
            if self._may_hold_unwritten
            else []
        )
        self._may_hold_unwritten = bool(found)
        return found

    def take_in(self, batch: ShareBatch) -> None:
        """Records that were just acquired."""
        where, (topic_id, _) = (batch.topic, batch.partition), lease_of(batch).partition
        if self._topic_ids.setdefault(where, topic_id) != topic_id:
            self._topic_ids[where] = topic_id
            self.held_back.reset_window(where)
        spans = spans_of(batch)
        if spans:
            self.held_back.saw(where, spans[-1][1])
        records = iter(batch)
        is_careful = batch.delivery_count >= self._handler.limits.last_safe_delivery  # looked at first
        if self._lane_of is None and not is_careful:
            self._batches.append((records, lease_of(batch)))
            return
        for record in self._rest(records):
            self._enter(self._deliver(record) if is_careful else record)

    def read(self, batch: ShareBatch) -> list[ShareRecord]:
        """Records that were just acquired, and won't be processed now."""
        return list(self._rest(iter(batch)))

    def _rest(self, records: BatchIterator) -> Iterator[ShareRecord]:
        while (record := self._read(records)) is not None:
            yield record

    def _enter(self, item: Item) -> None:
        if self._lane_of is None or self._lanes.enter(self._key_of(self._lane_of, record_of(item)), item):
            self._ready.append(item)

    def _key_of(self, lane_of: LaneOf, record: ShareRecord) -> Hashable:
        try:
            key = lane_of(record)
        except BaseException as problem:
            if not is_failure(problem):
                raise
            return None  # processing it will fail for the same reason
        if key is not None:
            self._keys[record] = key
        return key

    def next(self) -> Item | None:
        """The next one that is still held."""
        while self._ready:
            item = self._ready.popleft()
            if is_held(item):
                return item
            self._on_gone(item)
        return self._next_of_batches()

    def first_batch(self) -> BatchIterator | None:
        """The batch whose records are next, if there is nothing that comes before. Tell `drop_batch` if it is empty."""
        return self._batches[0][0] if self._batches and not self._ready else None

    def drop_batch(self, records: BatchIterator) -> None:
        if self._batches and self._batches[0][0] is records:
            self._batches.popleft()

    def _next_of_batches(self) -> ShareRecord | None:
        while self._batches:
            record = self._read(self._batches[0][0])
            if record is not None:
                return record
            self._batches.popleft()
        return None

    def next_for_probe(self) -> Item | None:
        """One that hasn't failed while the breaker was open, and was delivered least often: records of other deliveries
        may have failed in them. Otherwise the one that has failed least often."""
        while self._ready:
            item = min(self._ready, key=_failures)
            is_behind = self._batches and _failures(item) > (0, self._batches[0][1].delivery_count)
            if is_behind and (record := self._next_of_batches()) is not None:
                return record
            self._ready.remove(item)
            if is_held(item):
                return item
            self._on_gone(item)
        return self._next_of_batches()

    def has_untried(self, is_meant: Callable[[int], bool]) -> bool:
        """Whether any could be processed now that this worker hasn't tried. `is_meant` is given its delivery count."""
        self._unpack(is_meant)
        return any(_is_untried(item, is_meant) for item in self._ready)

    def count_untried(self, is_meant: Callable[[int], bool]) -> int:
        """How many of these."""
        self._unpack(is_meant)
        return sum(_is_untried(item, is_meant) for item in self._ready)

    def _unpack(self, is_meant: Callable[[int], bool]) -> None:
        for records, lease in self._batches:
            if is_meant(lease.delivery_count):
                self._ready.extend(map(self._deliver, self._rest(records)))

    def count_untried_behind(self, delivery: Delivery, is_meant: Callable[[int], bool]) -> int:
        """How many of those that wait for this one's key."""
        behind = self._lanes.behind(self._keys.get(delivery.record))
        return sum(_is_untried(item, is_meant) for item in behind)

    def next_untried(self, is_meant: Callable[[int], bool]) -> Delivery | None:
        """One of these."""
        if not self.has_untried(is_meant):
            return None
        item = next(item for item in self._ready if _is_untried(item, is_meant))
        self._ready.remove(item)
        delivery = item if isinstance(item, Delivery) else self._deliver(item)
        delivery.is_at_end = True
        return delivery

    @property
    def has_fresh(self) -> bool:
        """Whether any may be processed now that hasn't failed while the breaker was open."""
        return bool(self._batches) or any(not _failures(item)[0] for item in self._ready)

    def _read(self, records: BatchIterator) -> ShareRecord | None:
        while True:
            try:
                return records.next_held()
            except KshareError as problem:
                self.log_unreadable(problem)

    def log_unreadable(self, problem: Exception) -> None:
        self._handler.summary.event(logging.ERROR, "records can't be read, and were released", problem)

    def put(self, delivery: Delivery) -> None:
        """It may be processed now."""
        self._ready.append(delivery)

    def put_first(self, delivery: Delivery) -> None:
        """It is the next one."""
        self._ready.appendleft(delivery)

    def hold(self, delivery: Delivery, due_at: float) -> None:
        record = delivery.record
        self._may_hold_unwritten |= delivery.pending is not None
        self.held_back.add((record.topic, record.partition), record.offset, due_at, delivery)

    def hold_copy(self, delivery: Delivery, due_at: float) -> None:
        record = delivery.record
        self._copies.add((record.topic, record.partition), record.offset, due_at, delivery)

    def bring_due(self, now: float) -> None:
        """What has waited long enough may be processed. With lanes, not while its last call goes on."""
        for delivery in [*self.held_back.take_due(now)]:
            if self._lane_of is not None and delivery.record in self._going:
                self.hold(delivery, now + _LOOK_AGAIN_S)
            else:
                self._ready.append(delivery)
        for delivery in self._copies.take_due(now):
            self._ready.append(delivery)

    def pinned(self, delivery: Delivery) -> int:
        """How much of the in-flight window the record pins, as far as we know."""
        record = delivery.record
        return self.held_back.span((record.topic, record.partition), record.offset)

    def leave(self, item: Item) -> bool:
        """It is no longer processed. Returns whether the next record of its lane is ready now.

        While it is held for another attempt, or its handler goes on, its lane stays closed.
        """
        if self._lane_of is None or is_held(item) or record_of(item) in self._going:
            return False
        following = self._lanes.leave(self._keys.pop(record_of(item), None))
        if following is None:
            return False
        self._ready.append(following)
        return True

    def note_going(self, delivery: Delivery) -> None:
        """It was given up, and its handler goes on. Tell `note_ended` when that ends."""
        self._going.add(delivery.record)

    def note_ended(self, delivery: Delivery) -> None:
        self._going.discard(delivery.record)

    def take_ready(self) -> Iterator[Delivery]:
        """Take out what could be processed now. Keys whose records wait for others keep their order."""
        while (item := self.next()) is not None:
            yield item if isinstance(item, Delivery) else self._deliver(item)

    def take_pinning(
        self, may_go: Callable[[Delivery], bool], *, all_of_them: bool = False
    ) -> list[Delivery]:
        """Take out what could be processed now and pins too much of the in-flight window, if it may go; or all that
        could be processed now."""
        going: list[Delivery] = []
        staying: list[Delivery] = []
        for delivery in self.take_ready():
            pins_much = all_of_them or self.pinned(delivery) > self._handler.max_span
            (going if pins_much and may_go(delivery) else staying).append(delivery)
        self._ready.extend(staying)
        return going

    def in_hand(self) -> Iterator[Delivery]:
        """Everything but what waits in batches, which nobody has seen."""
        for item in chain(self.held_back, self._copies, self._ready, self._lanes):
            yield item if isinstance(item, Delivery) else self._deliver(item)

    def take_all(self) -> Iterator[tuple[Delivery, float]]:
        """Take out everything, to be handed back: with the time at which it may be processed, or 0."""
        held = [*self.held_back.take_all(), *self._copies.take_all()]
        self._ready.extend(self._lanes.take_all())
        for delivery, due_at in [*held, *((delivery, 0.0) for delivery in self.take_ready())]:
            self._keys.pop(delivery.record, None)
            yield delivery, due_at
        self._lanes.keep_busy(self._keys.values())  # of those that are being processed


def _failures(item: Item) -> tuple[int, int]:
    """How often it has failed while the breaker was open, and how often it was delivered."""
    return item.probes if isinstance(item, Delivery) else 0, record_of(item).delivery_count


def _is_untried(item: Item, is_meant: Callable[[int], bool]) -> bool:
    was_tried = isinstance(item, Delivery) and item.was_tried
    return not was_tried and is_meant(record_of(item).delivery_count) and is_held(item)


def record_of(item: Item) -> ShareRecord:
    return item.record if isinstance(item, Delivery) else item


def is_held(item: Item) -> bool:
    """Whether its lock is held, and it isn't settled."""
    record = record_of(item)
    return lease_of(record.batch).is_held(record.offset)
