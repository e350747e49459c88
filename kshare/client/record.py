"""What the user holds: a record, and the batch that it came in.

A batch is one acquired range of one partition. Its records are read when it is iterated; to settle it as a whole costs
the same for one record and for a thousand. Decides nothing but which offsets have no record (compaction, control
batches): those are acknowledged as gaps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kshare.errors import AcknowledgeError
from kshare.protocol.records import Batch, Record
from kshare.state.acks import ACCEPT, GAP, HELD, REJECT, RELEASE, RENEW, Lease

_HELD_RUN = re.compile(rb"\xff+")


class ShareRecord:
    """One delivered record. It is yours until it is settled or its lease is over."""

    __slots__ = ("_record", "batch", "offset")

    def __init__(self, batch: ShareBatch, record: Record) -> None:
        self.batch = batch
        self._record = record
        self.offset = record.offset

    @property
    def topic(self) -> str:
        return self.batch.topic

    @property
    def partition(self) -> int:
        return self.batch.partition

    @property
    def key(self) -> bytes | None:
        return self._record.key

    @property
    def value(self) -> bytes | None:
        return self._record.value

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        return self._record.headers

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970: the producer's clock, or the broker's if `has_append_time`."""
        return self._record.timestamp

    @property
    def has_append_time(self) -> bool:
        return self._record.has_append_time

    @property
    def delivery_count(self) -> int:
        """1 the first time; the broker gives a record up after a number of deliveries."""
        return self.batch.delivery_count

    @property
    def redelivered(self) -> bool:
        return self.batch.delivery_count > 1

    @property
    def lease_deadline(self) -> float:
        """On the clock of time.monotonic()."""
        return self.batch.lease.deadline

    def accept(self) -> None:
        """Done: never to be delivered again."""
        self.batch.settle(self.offset, ACCEPT)

    def release(self) -> None:
        """Not now: somebody, perhaps this consumer, gets it again."""
        self.batch.settle(self.offset, RELEASE)

    def reject(self) -> None:
        """Never: it can't be worked on by anybody."""
        self.batch.settle(self.offset, REJECT)

    def renew(self) -> None:
        """Needs longer: the lock begins anew."""
        self.batch.settle(self.offset, RENEW)

    def __repr__(self) -> str:
        return f"ShareRecord({self.topic}[{self.partition}]@{self.offset}, delivery {self.delivery_count})"


class ShareBatch:
    """Records of one partition that were acquired together, in the order of their offsets."""

    __slots__ = ("_batches", "_on_decision", "_spans", "lease", "topic")

    def __init__(
        self, topic: str, lease: Lease, batches: list[Batch], on_decision: Callable[[], None]
    ) -> None:
        self.topic = topic
        self.lease = lease
        self._batches = batches
        self._on_decision = on_decision
        self._spans = held_spans(lease)

    @property
    def partition(self) -> int:
        return self.lease.partition[1]

    @property
    def delivery_count(self) -> int:
        return self.lease.delivery_count

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._spans)

    def __iter__(self) -> Iterator[ShareRecord]:
        """Those that are still ours when it is their turn: a lost lease ends it, for they will come again."""
        lease = self.lease
        first = lease.first
        for batch in self._batches:
            for record in batch.records(self._spans):
                if lease.states[record.offset - first] == HELD or lease.is_held(record.offset):
                    yield ShareRecord(self, record)

    def raw(self) -> Iterator[Record]:
        """The records without handles of their own: for those who settle the batch as a whole."""
        for batch in self._batches:
            yield from batch.records(self._spans)

    def accept(self) -> None:
        """All that isn't settled yet; likewise the next three."""
        self._settle_all(ACCEPT)

    def release(self) -> None:
        self._settle_all(RELEASE)

    def reject(self) -> None:
        self._settle_all(REJECT)

    def renew(self) -> None:
        self._settle_all(RENEW)

    def settle(self, offset: int, kind: int) -> None:
        if not self.lease.decide(offset, kind):
            raise AcknowledgeError(
                f"{self.topic}[{self.partition}]@{offset} can't be acknowledged any more: "
                "it was acknowledged before, or its lease is over and the broker has given it to somebody else"
            )
        self._on_decision()

    def _settle_all(self, kind: int) -> None:
        self.lease.decide_held(kind)
        self._on_decision()

    def __repr__(self) -> str:
        return f"ShareBatch({self.topic}[{self.partition}]@{self.lease.first}..{self.lease.last})"


def held_spans(lease: Lease) -> list[tuple[int, int]]:
    """First and last offset of every stretch that is undecided."""
    return [(lease.first + start, lease.first + end - 1) for start, end in lease.runs(_HELD_RUN)]


def mark_gaps(lease: Lease, batches: list[Batch]) -> None:
    """Decide GAP for acquired offsets that have no record. Costs a walk only where something is missing."""
    covered = lease.first
    for batch in batches:
        first, last = max(batch.base_offset, lease.first), min(batch.last_offset, lease.last)
        _mark(lease, covered, first - 1)
        covered = last + 1
        if batch.is_control:
            _mark(lease, first, last)
        elif batch.record_count != batch.last_offset - batch.base_offset + 1:
            _mark_within(lease, batch, first, last)
    _mark(lease, covered, lease.last)


def _mark_within(lease: Lease, batch: Batch, first: int, last: int) -> None:
    expected = first
    for record in batch.records([(first, last)]):
        _mark(lease, expected, record.offset - 1)
        expected = record.offset + 1
    _mark(lease, expected, last)


def _mark(lease: Lease, first: int, last: int) -> None:
    for offset in range(first, last + 1):
        lease.decide(offset, GAP)
