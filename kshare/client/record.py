"""Records and batches, as users get them.

A batch is one acquired range of one partition. Its records are decoded while it is iterated. Settling a whole batch
costs the same for one record and for a thousand. `arrivals` has found out before which offsets have no record.

Compiled through `record.pxd`: the walk over a batch writes directly into the record objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

import kshare.fast.recycling as recycling
import kshare.fast.shown_names as shown_names
import kshare.fast.thread_id as thread_id
from kshare.errors import AcknowledgeError, KshareError, Unsupported
from kshare.protocol.record import Record, RecordWalk
from kshare.protocol.records import Batch
from kshare.protocol.uncopied import refuse_copy
from kshare.state.lease import ACCEPT, HELD, LOST, REJECT, RELEASE, RENEW, UNDECIDED, Lease, state_ranges

_HELD, _LOST = state_ranges([HELD]), state_ranges([LOST])
_accept = ACCEPT
"""Again, as a C variable: see the .pxd."""


class RecordReader(Protocol):
    """Deserializes keys and values."""

    kind: type[ShareRecord]
    """The class of the records that it fills."""

    def read(self, record: ShareRecord) -> bool:
        """Returns False if the record couldn't be deserialized and was settled."""
        ...


class Settler(Protocol):
    """Passes decisions on to the thread that owns the leases."""

    def settle(self, lease: Lease, offset: int, kind: int) -> bool:
        """Returns False if it is too late: sent, settled or lost."""
        ...

    def settle_all(self, lease: Lease, kind: int) -> None:
        """Settle all records of the lease that are still undecided."""
        ...

    def settle_spans(self, lease: Lease, spans: Sequence[tuple[int, int]], kind: int) -> None:
        """The same within these offsets."""
        ...


class ShareRecord(Record):
    """A delivered record. You hold it until you acknowledge it or its lock is lost."""

    __slots__ = ("batch",)

    batch: ShareBatch

    @property
    def topic(self) -> str:
        return self.batch.topic

    @property
    def partition(self) -> int:
        return self.batch.partition

    @property
    def delivery_count(self) -> int:
        """How many times the record has been delivered: 1 on the first delivery.

        At the group's limit the broker archives the record.
        """
        return self.batch.delivery_count

    @property
    def redelivered(self) -> bool:
        """Whether the record was delivered before."""
        return self.batch.delivery_count > 1

    @property
    def lease_deadline(self) -> float:
        """When the acquisition lock expires, on the clock of `anyio.current_time()`.

        In `kshare.sync`, it is a time on the clock of `time.monotonic()`.
        """
        return self.batch._lease.deadline

    def accept(self) -> None:
        """Accept the record: it is processed, and never delivered again."""
        self.batch._settle(self.offset, _accept)

    def release(self) -> None:
        """Release the record: it is redelivered to any member, possibly this one."""
        self.batch._settle(self.offset, RELEASE)

    def reject(self) -> None:
        """Reject the record: it can never be processed, and the broker archives it."""
        self.batch._settle(self.offset, REJECT)

    def renew(self) -> None:
        """Start the acquisition lock again, and the locks of the held records of the same batch.

        Raises Unsupported on Kafka 4.1, which can't renew locks.
        """
        self.batch._require_renewal()
        self.batch._settle(self.offset, RENEW)

    def __reduce__(self) -> NoReturn:
        refuse_copy(
            self,
            "copy the fields you need (value, key, headers, offset), and acknowledge the record in the process that "
            "consumed it",
        )

    def __repr__(self) -> str:
        return f"ShareRecord({self.topic}[{self.partition}]@{self.offset}, delivery {self.delivery_count})"


class ShareBatch:
    """Records of one partition that were acquired together, in the order of their offsets."""

    __slots__ = (
        "_accepted",
        "_batches",
        "_can_renew",
        "_is_part",
        "_lease",
        "_reader",
        "_settlement_queue",
        "_spans",
        "_thread",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        lease: Lease,
        batches: list[Batch],
        reader: RecordReader | None = None,
        can_renew: bool = True,
    ) -> None:
        """`can_renew`: whether the brokers can renew locks."""
        self.topic = topic
        self._lease = lease
        self._batches = batches
        self._reader = reader
        self._settlement_queue: Settler | None = None
        """Takes decisions in place of the lease, for users in another thread."""
        self._thread = 0
        """The only thread that may settle it, without a settlement queue; 0 if any may."""
        self._can_renew = can_renew
        self._spans = lease.spans_in(lease.first, lease.last, _HELD)
        """The records of the batch: first and last offset of each range."""
        self._is_part = False
        """Whether other records of its lease are in another batch."""
        self._accepted: list[tuple[int, int]] | None = None
        """What was held when it was accepted as a whole, by the user or by a loop."""

    @property
    def partition(self) -> int:
        return int(self._lease.partition[1])

    @property
    def delivery_count(self) -> int:
        """How many times the records have been delivered: 1 on the first delivery."""
        return self._lease.delivery_count

    def __class_getitem__(cls, item: object) -> type:
        """`ShareBatch[...]` names the type of the records, for type checkers only."""
        return cls

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._spans)

    def __iter__(self) -> BatchIterator:
        """Iterate over the records that are still held, or that were accepted with the batch.

        Records whose lock was lost are left out.
        """
        return BatchIterator(self)

    def values(self) -> list[bytes | None]:
        """The values of all records, as the producer sent them, without making record objects.

        Deserializers aren't called. Use it if you acknowledge the batch as a whole.
        """
        found: list[bytes | None] = []
        for batch in self._batches:
            found += batch.values(self._spans)
        return found

    def accept(self) -> None:
        """Accept all records of the batch that aren't acknowledged yet.

        Raises AcknowledgeError if the locks of some of them were lost; the others are accepted nevertheless. The same
        holds for `release`, `reject` and `renew`.
        """
        self._settle_all(ACCEPT)

    def release(self) -> None:
        """Release all records of the batch that aren't acknowledged yet; see `accept`."""
        self._settle_all(RELEASE)

    def reject(self) -> None:
        """Reject all records of the batch that aren't acknowledged yet; see `accept`."""
        self._settle_all(REJECT)

    def renew(self) -> None:
        """Start the acquisition locks of the batch again. Raises Unsupported on Kafka 4.1; see `accept`."""
        self._require_renewal()
        self._settle_all(RENEW)

    def _require_renewal(self) -> None:
        if not self._can_renew:
            raise Unsupported(
                "these brokers can't renew locks: Kafka 4.2 can. Give the group a longer "
                "share.record.lock.duration.ms instead"
            )

    def _settle(self, offset: int, kind: int) -> None:
        """Settle one record. Raises AcknowledgeError if it is too late."""
        if self._settlement_queue is None:
            if thread_id.thread_id() != self._thread:
                self._require_its_thread()
            is_settled = self._lease.decide(offset, kind)
        else:
            is_settled = self._settlement_queue.settle(self._lease, offset, kind)
        if not is_settled:
            raise self._too_late_error(offset)

    def _too_late_error(self, offset: int) -> AcknowledgeError:
        lost = self._lost_spans(offset, offset)
        if lost:
            return self._lock_lost_error(lost)
        return AcknowledgeError(
            f"{self.topic}[{self.partition}]@{offset} can no longer be acknowledged: its acknowledgement has "
            "already been sent"
        )

    def _require_its_thread(self) -> None:
        """Leases have no lock, and the event loop can't be woken from elsewhere: refuse before anything happens."""
        if self._settlement_queue is None and self._thread and thread_id.thread_id() != self._thread:
            raise KshareError(
                f"{self!r} was consumed in the event loop of another thread, and has to be acknowledged there: "
                "call anyio.from_thread.run_sync(record.accept), or use kshare.sync, where any thread may do it"
            )

    def _settle_held(self, kind: int) -> None:
        """Settle all records that are still undecided. Lost ones are left out."""
        self._note_accepted(kind)
        if self._settlement_queue is None:
            self._decide_held(kind)
        elif not self._is_part or kind == RENEW:  # renewals always apply to a whole lease
            self._settlement_queue.settle_all(self._lease, kind)
        else:
            self._settlement_queue.settle_spans(self._lease, self._spans, kind)

    def _decide_held(self, kind: int) -> None:
        """`_settle_held` in the thread that owns the lease."""
        self._note_accepted(kind)
        if not self._is_part or kind == RENEW:
            self._lease.decide_held(kind)
        else:
            for first, last in self._spans:
                self._lease.decide_held_within(first, last, kind)

    def _note_accepted(self, kind: int) -> None:
        if kind == ACCEPT and self._accepted is None:
            self._accepted = self._held_behind(self._lease.first - 1)

    @property
    def is_held(self) -> bool:
        """Whether any record of the batch isn't acknowledged yet."""
        if self._accepted is not None:
            return False
        lease = self._lease
        for first, last in self._spans:
            for offset in range(first, last + 1):
                if lease.is_held(offset):
                    return True
        return False

    def _lost_spans(self, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges of these offsets that can't be acknowledged because their lock was lost."""
        return self._lease.spans_in(first, last, _LOST)

    def _settle_all(self, kind: int) -> None:
        self._require_its_thread()
        lost: list[tuple[int, int]] = []
        for first, last in self._spans:
            lost += self._lost_spans(first, last)
        self._settle_held(kind)
        if lost:
            raise self._lock_lost_error(lost)

    def _lock_lost_error(self, lost: list[tuple[int, int]]) -> AcknowledgeError:
        offsets = ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in lost)
        reason = self._lease.loss_reason or (
            "lock expired, or the broker refused an acknowledgement; what wasn't accepted will be redelivered"
        )
        for first, last in lost:
            self._lease.report_loss(first, last)
        return AcknowledgeError(
            f"{self.topic}[{self.partition}]@{offsets} can no longer be acknowledged: {reason}"
        )

    def _held_behind(self, offset: int) -> list[tuple[int, int]]:
        """First and last offset of each range of the batch that is still held after this offset."""
        return sorted(
            held
            for first, last in self._spans
            for held in self._lease.spans_in(max(first, offset + 1), last, UNDECIDED)
        )

    def _rest_behind(self, offset: int) -> ShareBatch | None:
        """Split off what is still held after this offset as another batch; None if nothing is."""
        lease, held = self._lease, self._held_behind(offset)
        if not held:
            return None
        rest = ShareBatch(self.topic, lease, self._batches, self._reader, self._can_renew)
        rest._settlement_queue, rest._thread = self._settlement_queue, self._thread
        rest._spans = held
        self._spans = [(first, min(last, offset)) for first, last in self._spans if first <= offset]
        self._is_part = rest._is_part = True
        return rest

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "take its values(), and settle it where it was consumed")

    def __repr__(self) -> str:
        spans = self._spans or [(self._lease.first, self._lease.last)]
        return f"ShareBatch({self.topic}[{self.partition}]@{spans[0][0]}..{spans[-1][1]})"


class BatchIterator:
    """Iterates over the records of a batch that are still held, or were accepted with it.

    The record object before the last one is reused if nothing refers to it any more: creating a new object took as long
    as decoding the record.
    """

    __slots__ = (
        "_batch",
        "_before",
        "_given",
        "_kind",
        "_lease",
        "_next_batch",
        "_reached",
        "_reader",
        "_walk",
    )

    def __init__(self, batch: ShareBatch) -> None:
        self._batch = batch
        self._lease = batch._lease
        self._reader = batch._reader
        self._kind = ShareRecord if batch._reader is None else batch._reader.kind
        self._next_batch = 0
        self._walk: RecordWalk | None = None
        self._given: ShareRecord | None = None
        """The last record, to which the user's code mostly still refers when it asks for the next."""
        self._reached = batch._lease.first - 1
        """The last offset that was decoded."""
        self._before: ShareRecord | None = None
        """The record before the last one."""

    def __iter__(self) -> BatchIterator:
        return self

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "iterate over the batch again")

    def __next__(self) -> ShareRecord:
        record = self.next_held()
        if record is None:
            raise StopIteration
        return record

    def next_held(self) -> ShareRecord | None:
        """The next held record; None at the end. After an exception, continues after the record that caused it."""
        while True:
            walk = self._walk
            if walk is None:
                walk = self._open_next()
            if walk is None:
                return None
            record = self._blank()
            while walk.step(record):
                self._reached = record.offset
                if self._lease.is_held(record.offset) or self._was_accepted(record.offset):
                    record.batch = self._batch
                    if self._reader is None:
                        self._before = self._given
                        self._given = record
                        return record
                    if self._reader.read(record):
                        return record
                    record = self._blank()
            if walk.broken_at() >= 0:
                self._give_back(walk)
            self._walk = None

    def _was_accepted(self, offset: int) -> bool:
        """With the batch. Nobody else gets it: who accepts a batch before processing it would never see it."""
        accepted = self._batch._accepted
        if accepted is None or self._lease.is_lost(offset):
            return False
        return any(first <= offset <= last for first, last in accepted)

    def _give_back(self, walk: RecordWalk) -> None:
        """Release everything after a malformed record, for which an error was raised: we can't decode it."""
        batch = self._batch._batches[self._next_batch - 1]
        first = max(walk.broken_at(), self._lease.first)
        for offset in range(first, min(batch.last_offset, self._lease.last) + 1):
            if self._lease.is_held(offset):
                self._batch._settle(offset, RELEASE)

    @property
    def delivery_count(self) -> int:
        return self._lease.delivery_count

    def is_of(self, lease: Lease) -> bool:
        return self._lease is lease

    def rest(self) -> ShareBatch | None:
        """Split off what wasn't handed out yet as a separate batch. Ends this iteration."""
        rest = self._batch._rest_behind(self._reached)
        self._walk, self._next_batch = None, len(self._batch._batches)
        return rest

    def unread(self) -> list[tuple[int, int]]:
        """What wasn't handed out yet: first and last offset of each range that is still held."""
        return self._batch._held_behind(self._reached)

    def _blank(self) -> ShareRecord:
        """An empty record object. Those that a reader fills are never reused: they refer to deserialized objects."""
        record = self._before
        if record is not None and recycling.is_unshared(record):
            return record
        return ShareRecord.__new__(ShareRecord) if self._reader is None else self._kind.__new__(self._kind)

    def _open_next(self) -> RecordWalk | None:
        batches = self._batch._batches
        if self._next_batch == len(batches):
            return None
        self._walk = batches[self._next_batch].walk(self._batch._spans)
        self._next_batch += 1
        return self._walk


shown_names.show_as(ShareRecord, b"kshare.ShareRecord")
shown_names.show_as(ShareBatch, b"kshare.ShareBatch")


def lease_of(batch: ShareBatch) -> Lease:
    """The lease of a batch. Like the functions below, for other modules only: users call the batch's methods."""
    return batch._lease


def spans_of(batch: ShareBatch) -> list[tuple[int, int]]:
    """The records of the batch: first and last offset of each range."""
    return batch._spans


def lost_spans_of(batch: ShareBatch, first: int, last: int) -> list[tuple[int, int]]:
    """The ranges of these offsets that can't be acknowledged because their lock was lost."""
    return batch._lost_spans(first, last)


def settle_held(batch: ShareBatch, kind: int) -> None:
    """Settle all records that are still undecided. Lost ones are left out."""
    batch._settle_held(kind)


def decide_held(batch: ShareBatch, kind: int) -> None:
    """`settle_held` in the thread that owns the lease, without a queue."""
    batch._decide_held(kind)


def settle_through(batch: ShareBatch, settlement_queue: Settler) -> None:
    """Pass all decisions to this queue from now on, for users in another thread."""
    batch._settlement_queue = settlement_queue


def settle_in(batch: ShareBatch, thread: int) -> None:
    """Only this thread may settle it, since it runs the event loop."""
    batch._thread = thread


def undeserialized(batch: ShareBatch) -> BatchIterator:
    """Iterate over the records that are still held, with keys and values as bytes."""
    iterator = BatchIterator(batch)
    iterator._reader, iterator._kind = None, ShareRecord
    return iterator


def reader_of(batch: ShareBatch) -> RecordReader | None:
    return batch._reader


def read_through(batch: ShareBatch, reader: RecordReader) -> None:
    """Deserialize with this reader from now on."""
    batch._reader = reader
