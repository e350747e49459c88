"""The log of one partition: batches as producers sent them, with their offsets.

Decides offsets, which batches are valid, where the log starts and how far readers may read. Clients' batches are
decoded when they are written, to refuse what consumers couldn't read; they are stored and returned whole. `producers`
checks sequence numbers; time is passed in. There are no replicas: what is appended is committed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kshare.broker.notifiers import Notifier
from kshare.broker.producers import ProducerStates
from kshare.broker.request_error import RequestError
from kshare.errors import CorruptBatchError
from kshare.protocol import record_header as header
from kshare.protocol.checksum import crc32c
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.record_builder import assign_append_time, assign_offset
from kshare.protocol.records import Batch, read_batches

Buffer = bytes | bytearray | memoryview


@dataclass(slots=True, frozen=True)
class StoredBatch:
    """One batch in the log, with parts of its header."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    data: bytes

    @classmethod
    def of(cls, batch: Batch) -> StoredBatch:
        """A batch that has its offset already."""
        return cls(
            batch.base_offset,
            batch.last_offset,
            batch.leader_epoch,
            batch.max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.is_transactional,
            batch.is_control,
            bytes(batch.view),
        )

    @property
    def size(self) -> int:
        return len(self.data)

    def decode(self) -> Batch:
        """Parse the batch, for callers that need its records."""
        return next(read_batches(self.data))


@dataclass(slots=True)
class LogSlice:
    """Consecutive whole batches. The first may begin before the requested offset."""

    batches: list[StoredBatch] = field(default_factory=list)
    size: int = 0

    @property
    def base_offset(self) -> int:
        return self.batches[0].base_offset

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset

    def data(self) -> bytes:
        if len(self.batches) == 1:
            return self.batches[0].data
        return b"".join([batch.data for batch in self.batches])

    def __bool__(self) -> bool:
        return bool(self.batches)


@dataclass(slots=True, frozen=True)
class Appended:
    """The offsets of an appended batch; for a duplicate, those of the original."""

    base_offset: int
    last_offset: int
    append_time: int
    """-1 unless the topic uses LogAppendTime."""


class KeylessRecordsError(RequestError):
    """Records of a compacted topic have no key. `indexes` are their positions in the batch."""

    def __init__(self, indexes: list[int]) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, "records of a compacted topic must have keys")
        self.indexes = indexes


@dataclass(slots=True, frozen=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the abort marker."""


@dataclass(slots=True)
class LogLimits:
    """A topic's settings that apply to its logs."""

    max_batch_bytes: int = 1_048_588
    uses_append_time: bool = False
    needs_keys: bool = False
    """True for compacted topics."""


def is_aborted(batch: StoredBatch, aborted: Iterable[AbortedTransaction]) -> bool:
    """Whether its records belong to one of these transactions."""
    return batch.is_transactional and any(
        each.producer_id == batch.producer_id and each.first_offset <= batch.base_offset < each.last_offset
        for each in aborted
    )


class PartitionLog:
    """A log in memory. To store it on disk too, set the `on_...` callbacks."""

    def __init__(self, limits: LogLimits | None = None, start_offset: int = 0) -> None:
        self.limits = limits or LogLimits()
        self.appended = Notifier()
        """Fires when records were added or became readable, and when the start has moved."""
        self.producers = ProducerStates()
        self.aborted: list[AbortedTransaction] = []
        self.on_append: Callable[[StoredBatch], None] | None = None
        self.on_start_moved: Callable[[int], None] | None = None
        self.on_replaced: Callable[[], None] | None = None
        self._batches: list[StoredBatch] = []
        self._bases: list[int] = []
        self.start_offset = start_offset
        """The first offset that can be read."""
        self.end_offset = start_offset
        """The offset of the next record."""
        self.size = 0

    # --- bounds

    @property
    def high_watermark(self) -> int:
        """The end for `read_uncommitted` readers. Without replicas, it is the log's end."""
        return self.end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end for `read_committed` readers: the first record of an open transaction, if it isn't deleted."""
        first = self.producers.first_open_offset()
        return self.end_offset if first is None else min(max(first, self.start_offset), self.end_offset)

    def readable_end(self, committed_only: bool) -> int:
        return self.last_stable_offset if committed_only else self.high_watermark

    # --- writing

    def append(
        self,
        records: Buffer,
        *,
        now: int,
        leader_epoch: int,
        from_client: bool = True,
    ) -> Appended:
        """Append one batch. If it raises RequestError, nothing has changed."""
        batch = self._inspect(records, from_client)
        duplicate = self.producers.check(batch)
        if duplicate is not None:
            return Appended(duplicate, duplicate + batch.last_offset_delta, -1)
        data = bytearray(records)
        assign_offset(data, self.end_offset, leader_epoch)
        append_time = -1
        if self.limits.uses_append_time and not batch.is_control:
            append_time = now
            assign_append_time(data, now)
        stored = StoredBatch.of(next(read_batches(data)))
        if self.on_append is not None:
            self.on_append(stored)
        self._take(stored, batch)
        self.appended.fire()
        return Appended(stored.base_offset, stored.last_offset, append_time)

    def restore(self, stored: StoredBatch) -> None:
        """Add a batch that was read from disk, with its offset."""
        self._take(stored, stored.decode())

    def _take(self, stored: StoredBatch, batch: Batch) -> None:
        self._batches.append(stored)
        self._bases.append(stored.base_offset)
        self.end_offset = stored.last_offset + 1
        self.size += stored.size
        ended = self.producers.record(batch, stored.base_offset)
        if ended is not None and ended.was_aborted:
            self.aborted.append(
                AbortedTransaction(stored.producer_id, ended.first_offset, stored.last_offset)
            )

    def _inspect(self, records: Buffer, from_client: bool) -> Batch:
        view = memoryview(records)
        if len(view) > self.limits.max_batch_bytes and from_client:
            reason = f"the batch has {len(view)} bytes, but the limit is {self.limits.max_batch_bytes} bytes"
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, reason)
        try:
            batches = list(read_batches(view))
        except CorruptBatchError as broken:
            raise RequestError(ErrorCode.CORRUPT_MESSAGE, str(broken)) from None
        if len(batches) != 1 or batches[0].size != len(view):
            raise RequestError(
                ErrorCode.INVALID_RECORD, "expected exactly one whole batch for each partition"
            )
        batch = batches[0]
        if from_client and crc32c(view[header.CHECKSUM_BEHIND :]) != batch.checksum:
            raise RequestError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
        if from_client:
            if batch.is_control:
                raise RequestError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
            if batch.record_count <= 0 or batch.last_offset_delta != batch.record_count - 1:
                raise RequestError(
                    ErrorCode.INVALID_RECORD, "the batch's last offset doesn't match its record count"
                )
            try:
                keyless = [index for index, record in enumerate(batch) if record.key is None]
            except CorruptBatchError as broken:
                raise RequestError(ErrorCode.INVALID_RECORD, str(broken)) from None
            if self.limits.needs_keys and keyless:
                raise KeylessRecordsError(keyless)
        return batch

    def delete_before(self, offset: int) -> None:
        """Move the start forward, and delete batches that are entirely before it."""
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        count = bisect_left(self._bases, offset)
        if count and self._batches[count - 1].last_offset >= offset:
            count -= 1
        self.size -= sum(batch.size for batch in self._batches[:count])
        del self._batches[:count], self._bases[:count]
        self.aborted = [each for each in self.aborted if each.last_offset >= offset]
        first = self.producers.first_open_offset()
        if first is not None and first < offset:
            self.producers.forget_deleted(
                (batch.producer_id, batch.base_offset) for batch in self._batches if batch.is_transactional
            )
        if self.on_start_moved is not None:
            self.on_start_moved(offset)
        self.appended.fire()

    def lose_from(self, offset: int) -> int:
        """Lose the batches that begin at or after this offset: brokers have stopped before they had flushed them.

        Producers of these are known as far as the other batches tell. Returns the end offset.
        """
        count = bisect_left(self._bases, offset)
        lost = self._batches[count:]
        if not lost:
            return self.end_offset
        del self._batches[count:], self._bases[count:]
        self.end_offset = lost[0].base_offset
        self.size -= sum(batch.size for batch in lost)
        self.aborted = [each for each in self.aborted if each.last_offset < self.end_offset]
        writers = {batch.producer_id for batch in lost}
        self.producers.forget(writers)
        for batch in self._batches:
            if batch.producer_id in writers:
                self.producers.record(batch.decode(), batch.base_offset)
        if self.on_replaced is not None:
            self.on_replaced()
        return self.end_offset

    def replace_batches(self, kept: list[StoredBatch]) -> None:
        """Replace all batches after compaction. They ascend. The log's start and end offset don't change."""
        self._batches = list(kept)
        self._bases = [batch.base_offset for batch in kept]
        self.size = sum(batch.size for batch in kept)
        # Without its marker, an aborted transaction would seem to go on in those that follow it.
        markers = {batch.last_offset for batch in kept if batch.is_control}
        self.aborted = [each for each in self.aborted if each.last_offset in markers]
        if self.on_replaced is not None:
            self.on_replaced()

    # --- reading

    def read(self, offset: int, max_bytes: int, end: int | None = None) -> LogSlice:
        """Whole batches from the one with `offset`, up to `max_bytes` (but at least one), before `end`."""
        end = self.end_offset if end is None else min(end, self.end_offset)
        span = LogSlice()
        for batch in self.batches_from(offset):
            if batch.base_offset >= end or (span.batches and span.size + batch.size > max_bytes):
                break
            span.batches.append(batch)
            span.size += batch.size
        return span

    def batches_from(self, offset: int) -> Iterator[StoredBatch]:
        """The batch with `offset`, or the next one if there is none, and all batches after it."""
        index = max(bisect_right(self._bases, offset) - 1, 0)
        while index < len(self._batches) and self._batches[index].last_offset < offset:
            index += 1
        for position in range(index, len(self._batches)):
            yield self._batches[position]

    def first_from(self, time: int) -> tuple[int, int] | None:
        """Timestamp and offset of the first record that isn't older than `time`."""
        for batch in self.batches_from(self.start_offset):
            if batch.max_timestamp >= time and not batch.is_control:
                for record in batch.decode():
                    if record.timestamp >= time and record.offset >= self.start_offset:
                        return record.timestamp, record.offset
        return None

    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and the first offset with it; (-1, -1) for an empty log."""
        best: StoredBatch | None = None
        for batch in self.batches_from(self.start_offset):
            if not batch.is_control and (best is None or batch.max_timestamp > best.max_timestamp):
                best = batch
        return (-1, -1) if best is None else (self.first_from(best.max_timestamp) or (-1, -1))

    def aborted_between(self, first: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records or their marker in [first, end)."""
        return [each for each in self.aborted if each.first_offset < end and each.last_offset >= first]

    def is_committed(self, batch: StoredBatch) -> bool:
        """Whether `read_committed` readers get the records of this batch."""
        return batch.last_offset < self.last_stable_offset and not is_aborted(batch, self.aborted)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch up to `epoch` that has batches, and its end offset; (-1, -1) if there is none."""
        found, end = -1, -1
        for batch in self._batches:
            if batch.leader_epoch > epoch:
                return (found, batch.base_offset) if found >= 0 else (-1, -1)
            found, end = batch.leader_epoch, batch.last_offset + 1
        return (found, self.end_offset) if end >= 0 else (-1, -1)
