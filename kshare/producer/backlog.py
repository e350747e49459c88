"""The records that aren't confirmed yet: batches by partition, which to send next, and what becomes of them.

Pure: time is passed in. Each partition has at most one batch under way, always its oldest. A batch gets its sequence
number when it is first sent, and keeps it while it is sent again, so that the broker recognizes a duplicate. No other
batch ever gets that number: it could be taken for a duplicate, and would be confirmed without being written. So after
a batch that was sent and isn't confirmed, the next one gets number 0 of the next producer epoch. That also prevents
that a batch that was given up is written after all, by a request that was late. In a transaction, everything is given
up together, and the coordinator gives the next epoch.

Whether a batch may have been written doesn't follow from the last error alone. It may have been as soon as one attempt
had no response, or one that brokers also give after they have appended a batch (see `outcomes`); no later response
proves the contrary.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter

from kshare.errors import BrokerError, DeliveryFailed, KshareError, own_copy
from kshare.producer.batch_outcomes import BatchOutcome
from kshare.producer.failures import BatchFailure, Failures
from kshare.producer.records import (
    BLOCK_RECORD_MEMORY,
    HEADER_MEMORY,
    RECORD_MEMORY,
    Contents,
    NewRecord,
    PendingBlock,
    PendingSend,
    Produced,
)
from kshare.producer.schedule import Schedule
from kshare.producer.settings import WriterSettings
from kshare.protocol.record_builder import BatchBuilder

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
_SEQUENCES = 2**31
_LAST_EPOCH = 2**15 - 1
_FEW = 512
_number_of = attrgetter("number")


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """What a coordinator gave us."""

    producer_id: int
    epoch: int


@dataclass(slots=True, eq=False)
class PendingBatch:
    topic: str
    partition: int
    number: int
    """Batches are numbered in the order in which they are begun."""
    created_at: float
    sends: list[PendingSend] = field(default_factory=list)
    """The handle of each record, or of all."""
    records: list[Contents] = field(default_factory=list)
    block: PendingBlock | None = None
    """The handle of all records, if they have only one. No others are added to this batch then."""
    callers: set[object] = field(default_factory=set)
    """Who has enqueued records of it."""
    size: int = 0
    """Of the records in the batch, uncompressed."""
    memory: int = 0
    """What it takes until it is confirmed or given up."""
    payload: bytes | None = None
    """The batch as it is sent, from the first attempt on."""
    is_over: bool = False
    """It was confirmed, given up or split."""
    is_under_way: bool = False
    may_be_written: bool = False
    """After some attempt, it wasn't certain that the broker hadn't appended it."""
    attempts: int = 0
    not_before: float = float("-inf")
    problem: str = ""
    """Why the last attempt failed."""

    @property
    def place(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(slots=True, eq=False)
class _Partition:
    """The batches of a partition, oldest first."""

    batches: deque[PendingBatch] = field(default_factory=deque)
    identity: ProducerIdentity | None = None
    """What the producer had when a batch was last numbered."""
    epoch: int = 0
    sequence: int = 0
    """The sequence number of the oldest batch."""

    def number_for(self, identity: ProducerIdentity) -> tuple[int, int]:
        """Epoch and sequence number of the oldest batch."""
        if self.identity != identity:
            self.identity, self.epoch, self.sequence = identity, identity.epoch, 0
        return self.epoch, self.sequence


class Backlog:
    """All batches of a producer."""

    def __init__(self, settings: WriterSettings) -> None:
        self.size = 0
        """About how much memory all records take, in bytes."""
        self.last_number = -1
        """The number of the newest batch."""
        self.failed: PendingSend | None = None
        """A record that wasn't written, since failures were last forgotten."""
        self.failures = Failures()
        self._identity: ProducerIdentity | None = None
        self._settings = settings
        self._numbers = count()
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._waiting: dict[tuple[str, int], _Partition] = {}
        """The partitions with batches."""
        self._schedule: Schedule[_Partition] = Schedule()
        """When the oldest batch of a partition is to be sent or given up, unless it is under way."""
        self._batches: list[PendingBatch] = []
        """In the order of their numbers. Some may be over."""
        self._first = 0
        """Before this index, all of them are over."""
        self._over = 0
        """How many of them are over."""
        self._flushed_through = -1

    @property
    def identity(self) -> ProducerIdentity | None:
        """No batch gets a number without one. None if its epochs are used up, too: then another one is needed."""
        return self._identity

    @identity.setter
    def identity(self, identity: ProducerIdentity | None) -> None:
        self._identity = identity
        for queue in self._waiting.values():
            self._plan(queue)

    # --- adding

    def add(
        self, topic: str, partition: int, record: NewRecord, now: float, caller: object = None, size: int = 0
    ) -> tuple[PendingSend, bool]:
        """Returns the handle, and whether there may be something to send, or something new to wait for.

        `size` is that of the record, if it is known.
        """
        place = (topic, partition)
        queue = self._partitions.get(place) or self._queue(place)
        size = size or record.size
        batch = self._open_batch(queue, size)
        is_new = batch is None
        if batch is None:
            batch = self._begin_batch(place, queue, now)
        send = PendingSend(record)
        batch.sends.append(send)
        batch.records.append(record)
        batch.callers.add(caller)
        memory = size + RECORD_MEMORY
        if record.headers:
            memory += HEADER_MEMORY * len(record.headers)
        batch.size += size
        batch.memory += memory
        self.size += memory
        if is_new or batch.size >= self._settings.batch_bytes:
            self._plan(queue)
            return send, True
        return send, False

    def add_block(
        self,
        topic: str,
        partition: int,
        records: Sequence[Contents],
        size: int,
        now: float,
        caller: object = None,
    ) -> PendingBlock:
        """Adds a batch of its own. `size` isn't less than the actual one."""
        place = (topic, partition)
        queue = self._queue(place)
        batch = self._begin_batch(place, queue, now)
        batch.block = PendingBlock(records)
        batch.sends, batch.records, batch.size = [batch.block], list(records), size
        batch.memory = size + BLOCK_RECORD_MEMORY * len(records)
        batch.callers.add(caller)
        self.size += batch.memory
        self._plan(queue)
        return batch.block

    def _queue(self, place: tuple[str, int]) -> _Partition:
        queue = self._partitions.get(place)
        if queue is None:
            queue = self._partitions[place] = _Partition()
        return queue

    def _begin_batch(self, place: tuple[str, int], queue: _Partition, now: float) -> PendingBatch:
        self.last_number = next(self._numbers)
        batch = PendingBatch(*place, self.last_number, now)
        queue.batches.append(batch)
        self._waiting[place] = queue
        if self._over > _FEW and 2 * self._over > len(self._batches):
            self._batches = [known for known in self._batches if not known.is_over]
            self._first = self._over = 0
        self._batches.append(batch)
        return batch

    def has_room(self, topic: str, partition: int, size: int) -> bool:
        """Whether a record of this size would join others that wait for this partition."""
        queue = self._waiting.get((topic, partition))
        return queue is not None and self._open_batch(queue, size) is not None

    def _open_batch(self, queue: _Partition, size: int) -> PendingBatch | None:
        if not queue.batches:
            return None
        batch = queue.batches[-1]
        is_closed = batch.attempts or batch.block is not None
        return None if is_closed or batch.size + size > self._settings.batch_bytes else batch

    # --- sending

    @property
    def oldest_number(self) -> int | None:
        """None if there are no batches."""
        while self._first < len(self._batches) and self._batches[self._first].is_over:
            self._first += 1
        return self._batches[self._first].number if self._first < len(self._batches) else None

    def is_alone(self, send: PendingSend) -> bool:
        """Whether this record waits, and no other."""
        if len(self._waiting) != 1:
            return False
        (queue,) = self._waiting.values()
        batch = queue.batches[0]
        return len(queue.batches) == 1 and not batch.is_under_way and batch.sends == [send]

    def flush(self, number: int) -> None:
        """Don't let batches up to this number linger."""
        before, self._flushed_through = self._flushed_through, max(self._flushed_through, number)
        at = max(self._first, bisect_right(self._batches, before, key=_number_of))
        while at < len(self._batches) and self._batches[at].number <= number:
            batch = self._batches[at]
            if not batch.is_over:
                self._plan(self._waiting[batch.topic, batch.partition])
            at += 1

    def ready(self, now: float) -> list[PendingBatch]:
        """The batches to send now. Without an identity, only those that have their number."""
        due = [queue.batches[0] for queue in self._schedule.due(now)]
        return [batch for batch in due if not self._is_stuck(batch) and self._ready_at(batch) <= now]

    def wake_at(self) -> float:
        """When there will be something to send or to give up, if nothing happens until then."""
        return self._schedule.next_at

    def _plan(self, queue: _Partition) -> None:
        """Call this whenever the oldest batch is another one, or may have to be sent or given up earlier or later."""
        if not queue.batches or queue.batches[0].is_under_way:
            self._schedule.remove(queue)
            return
        batch = queue.batches[0]
        at = self.expires_at(batch)
        self._schedule.set(queue, at if self._is_stuck(batch) else min(self._ready_at(batch), at))

    def _is_stuck(self, batch: PendingBatch) -> bool:
        return self._identity is None and batch.payload is None

    def _ready_at(self, batch: PendingBatch) -> float:
        is_full = (
            batch.attempts > 0
            or batch.number <= self._flushed_through
            or batch.size >= self._settings.batch_bytes
            or len(self._waiting[batch.topic, batch.partition].batches) > 1
        )
        return max(batch.not_before, batch.created_at + (0 if is_full else self._settings.linger))

    def expires_at(self, batch: PendingBatch) -> float:
        return batch.created_at + self._settings.delivery_timeout

    def take(self, batch: PendingBatch) -> bytes:
        """The bytes to send. `settle` or `postpone` has to be called when the outcome is known."""
        queue = self._waiting[batch.topic, batch.partition]
        batch.is_under_way = True
        batch.attempts += 1
        self._plan(queue)
        if batch.payload is None:
            assert self.identity is not None, "it isn't ready without one"
            epoch, sequence = queue.number_for(self.identity)
            builder = BatchBuilder(
                compression=self._settings.codec,
                producer_id=self.identity.producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=self._settings.is_transactional,
            )
            for value, key, headers, timestamp in batch.records:
                builder.append(value, key=key, headers=headers, timestamp=timestamp)
            batch.payload = bytes(builder.build())
            batch.memory += len(batch.payload)
            self.size += len(batch.payload)
        return batch.payload

    def postpone(self, batch: PendingBatch, now: float, problem: str) -> None:
        """It couldn't be sent."""
        batch.is_under_way = False
        batch.problem = problem
        pause = _FIRST_PAUSE_S * 2 ** min(batch.attempts, 10)
        batch.not_before = now + min(pause, _LONGEST_PAUSE_S)
        self._plan(self._waiting[batch.topic, batch.partition])

    # --- outcomes

    def confirm(self, batch: PendingBatch, base_offset: int, append_time: int) -> None:
        queue = self._remove(batch)
        queue.sequence = (queue.sequence + len(batch.records)) % _SEQUENCES
        for index, send in enumerate(batch.sends):
            offset = base_offset + index if base_offset >= 0 else -1
            timestamp = append_time if append_time >= 0 else send.record.timestamp
            send.succeed(Produced(batch.topic, batch.partition, offset, timestamp))

    def settle(self, batch: PendingBatch, outcome: BatchOutcome, error: KshareError, now: float) -> None:
        """An attempt has failed."""
        if outcome in (BatchOutcome.RETRY_OPEN, BatchOutcome.REFUSED_OPEN):
            batch.may_be_written = True
        is_untouched = not batch.may_be_written
        is_numbered_here = not self._settings.is_transactional
        if outcome in (BatchOutcome.RETRY, BatchOutcome.RETRY_OPEN):
            self.postpone(batch, now, str(error))
        elif outcome is BatchOutcome.DUPLICATE and batch.may_be_written:
            self.confirm(batch, -1, -1)
        elif outcome in (BatchOutcome.RENUMBER, BatchOutcome.DUPLICATE) and is_untouched and is_numbered_here:
            self._begin_epoch(self._waiting[batch.topic, batch.partition])
            self._discard_payload(batch)
            self.postpone(batch, now, str(error))
        elif outcome is BatchOutcome.SPLIT and is_untouched and len(batch.records) > 1:
            self._split(batch)
        else:
            self.give_up(batch, error)

    def _begin_epoch(self, queue: _Partition) -> None:
        """The number of its oldest batch was used, and isn't used again."""
        if self._settings.is_transactional:
            return  # the coordinator gives the next epoch
        queue.epoch += 1
        queue.sequence = 0
        if queue.epoch > _LAST_EPOCH and queue.identity == self.identity:
            self.identity = None

    def _discard_payload(self, batch: PendingBatch) -> None:
        size = len(batch.payload or b"")
        batch.payload = None
        batch.memory -= size
        self.size -= size

    def _split(self, batch: PendingBatch) -> None:
        queue = self._waiting[batch.topic, batch.partition]
        self._begin_epoch(queue)
        self._discard_payload(batch)
        queue.batches.popleft()
        self._end(batch)
        half = len(batch.records) // 2
        if batch.block is not None:
            batch.block.on_split()
        for chosen in (slice(half, None), slice(0, half)):
            part = PendingBatch(batch.topic, batch.partition, batch.number, batch.created_at, attempts=1)
            part.records, part.block = batch.records[chosen], batch.block
            part.sends = batch.sends[chosen] if batch.block is None else batch.sends
            part.size = sum(NewRecord(*record).size for record in part.records)
            part.memory = batch.memory // 2
            part.callers = batch.callers
            queue.batches.appendleft(part)
            self._batches.insert(bisect_right(self._batches, part.number, key=_number_of), part)
            self.size += part.memory
        self.size -= batch.memory
        self._plan(queue)

    def expire(self, now: float) -> bool:
        """Give up batches that weren't confirmed within the delivery timeout. Returns whether there were any."""
        due = [queue.batches[0] for queue in self._schedule.due(now)]
        late = [batch for batch in due if self.expires_at(batch) <= now]
        for batch in late:
            limit = f"{self._settings.delivery_timeout:g} s"
            self.give_up(batch, KshareError(f"not confirmed within {limit}: {batch.problem or 'not sent'}"))
        return bool(late)

    def give_up(self, batch: PendingBatch, error: KshareError) -> None:
        """In a transaction, everything else is given up with it, because nothing of it can be committed."""
        if not batch.is_over:
            self._give_up(batch, error)
        if self._settings.is_transactional:
            self.give_up_idle(KshareError(f"the transaction failed: {error}"))

    def give_up_topic(self, topic: str, error: KshareError) -> None:
        """Give up everything for a topic, except what is under way."""
        for batch in self._idle():
            if batch.topic == topic:
                self.give_up(batch, error)

    def give_up_idle(self, error: KshareError) -> None:
        """Give up everything, except what is under way."""
        for batch in self._idle():
            self._give_up(batch, error)

    def give_up_all(self, error: KshareError) -> None:
        """Nothing is sent any more. What is under way may have been written."""
        for queue in list(self._waiting.values()):
            for batch in list(queue.batches):
                batch.may_be_written |= batch.is_under_way
                self._give_up(batch, error)

    def _idle(self) -> list[PendingBatch]:
        queues = self._waiting.values()
        return [batch for queue in queues for batch in queue.batches if not batch.is_under_way]

    def _give_up(self, batch: PendingBatch, error: KshareError) -> None:
        queue = self._remove(batch)
        if batch.payload is not None:
            self._begin_epoch(queue)
        failure = BatchFailure(batch.place, _error_factory(batch, error))
        for send in batch.sends:
            send.fail(failure)
        self.failures.add(failure, batch.callers)
        self.failed = self.failed or batch.sends[0]

    def _remove(self, batch: PendingBatch) -> _Partition:
        queue = self._waiting[batch.topic, batch.partition]
        queue.batches.remove(batch)
        self._end(batch)
        if not queue.batches:
            del self._waiting[batch.topic, batch.partition]
        self._plan(queue)
        self.size -= batch.memory
        return queue

    def _end(self, batch: PendingBatch) -> None:
        batch.is_over = True
        self._over += 1

    def begin_transaction(self) -> None:
        """A transaction begins: it can be committed unless one of its own records isn't written."""
        self.failed = None

    @property
    def unconfirmed(self) -> int:
        """How many records wait for their outcome."""
        return sum(len(batch.records) for batch in self._batches if not batch.is_over)


def _error_factory(batch: PendingBatch, error: KshareError) -> Callable[[], KshareError]:
    """Refusals stay as they are, unless an earlier attempt may have written the batch."""
    if isinstance(error, BrokerError) and not batch.may_be_written:
        return lambda: own_copy(error)
    place, reason, is_open = (batch.topic, batch.partition), str(error), batch.may_be_written
    return lambda: DeliveryFailed(*place, reason, is_open=is_open)
