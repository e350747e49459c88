"""Record batches as brokers send them. Headers are read at once, records on demand.

Decides whether a batch is valid (length, magic, checksum, counts, decompressed size); `record` then checks each record.
Doesn't decide which records a consumer gets: acquired ranges and aborted transactions are applied elsewhere. Offsets
that compaction removed have no record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NoReturn, cast

from kshare import fast
from kshare.errors import CorruptBatchError, DecodeError, OversizedBatchError
from kshare.protocol import record as record_module
from kshare.protocol import record_header as header
from kshare.protocol.checksum import crc32c
from kshare.protocol.compression import Compression, SectionTooLarge, decompress
from kshare.protocol.compression_bounds import decompressed_bound
from kshare.protocol.decompression_budget import BudgetSpentError, DecompressionBudget, DecompressionLimit
from kshare.protocol.record import OffsetRanges, Record, RecordWalk
from kshare.protocol.record_header import ControlType
from kshare.protocol.record_loop import quick_records
from kshare.protocol.uncopied import refuse_copy

Buffer = bytes | bytearray | memoryview

_SMALLEST_RECORD = 7
_IS_QUICK = fast.IS_ON and str(record_module.__file__).endswith(".py")
"""Whether to use `record_loop`: not if compiled, as the walk is faster then, nor if `fast` is switched off."""
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_TYPES = frozenset(map(int, ControlType))


def read_batches(
    data: Buffer, *, budget: DecompressionBudget | DecompressionLimit | None = None
) -> Iterator[Batch]:
    """The batches of a fetch response's records, or of a log segment. Those who open batches share the budget.

    An incomplete batch at the end is left out: brokers cut off a response at the fetch size. Only headers are read and
    checked until a batch is opened, so a corrupt batch doesn't hide those after it.
    """
    view = memoryview(data)
    if view.format != "B":
        view = view.cast("B")
    position = 0
    while len(view) - position > header.MAGIC_AT:
        base_offset, length = struct.unpack_from(">qi", view, position)
        magic = view[position + header.MAGIC_AT]
        if magic < header.MAGIC:
            reason = f"message format {magic} is from before Kafka 0.11; only format 2 can be read"
            raise CorruptBatchError(base_offset, header.MAGIC_AT, reason)
        if magic > header.MAGIC:
            raise CorruptBatchError(base_offset, header.MAGIC_AT, f"message format {magic} is not known")
        size = length + header.LENGTH_BEHIND
        if size < header.HEADER.size:
            raise CorruptBatchError(base_offset, header.LENGTH_AT, f"a length of {length} is too small")
        if size > len(view) - position:
            return
        yield Batch(view[position : position + size], budget)
        position += size


class Batch:
    """One batch. Its header is read at once; records are checked, decompressed and created on demand."""

    __slots__ = (
        "_budget",
        "_is_checked",
        "_opened",
        "_start",
        "_walk",
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "checksum",
        "last_offset_delta",
        "leader_epoch",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "view",
    )

    def __init__(
        self, view: memoryview, budget: DecompressionBudget | DecompressionLimit | None = None
    ) -> None:
        self.view = view
        self._budget = budget
        self._is_checked = False
        self._opened: memoryview | None = None
        self._walk: RecordWalk | None = None
        """The last one that was for a part of the batch."""
        self._start = header.HEADER.size
        self.base_offset: int
        self.leader_epoch: int
        self.checksum: int
        self.attributes: int
        self.last_offset_delta: int
        self.base_timestamp: int
        self.max_timestamp: int
        self.producer_id: int
        self.producer_epoch: int
        self.base_sequence: int
        self.record_count: int
        (
            self.base_offset,
            _length,
            self.leader_epoch,
            _magic,
            self.checksum,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = header.HEADER.unpack_from(view)

    @property
    def size(self) -> int:
        """The size of the batch on the wire, in bytes."""
        return len(self.view)

    @property
    def last_offset(self) -> int:
        """The last offset of the batch, even if compaction has removed its record."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Compression:
        codec = self.attributes & header.CODEC_MASK
        if codec > Compression.ZSTD:
            raise self._broken(header.ATTRIBUTES_AT, f"compression codec {codec} is not known")
        return Compression(codec)

    @property
    def has_append_time(self) -> bool:
        """Whether timestamps are from the broker (LogAppendTime), not from the producer (CreateTime)."""
        return bool(self.attributes & header.APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & header.TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether it contains a marker for brokers and clients instead of records for users."""
        return bool(self.attributes & header.CONTROL_BIT)

    @property
    def control_type(self) -> int:
        """The type of a control batch's first marker: a ControlType, or the number of an unknown type."""
        for record in self:
            key = record.key
            if key is None or len(key) < _CONTROL_KEY.size:
                break
            kind: int = _CONTROL_KEY.unpack_from(key)[1]
            return ControlType(kind) if kind in _CONTROL_TYPES else kind
        raise self._broken(header.HEADER.size, "a control batch without a marker")

    def open(self) -> None:
        """Verifies the checksum and decompresses. Methods that read records call it."""
        if self._opened is None:
            self.check()
            self._decompress()

    def check(self) -> None:
        """Verifies the checksum and the numbers in the header, for callers that use these without reading records.

        The checksum doesn't cover base offset, length and leader epoch: whether a batch is at the right offset can only
        be told from the batches before and after it.
        """
        if not self._is_checked:
            self._check()
            self._is_checked = True

    def missing(self) -> list[tuple[int, int]]:
        """First and last offset of each range without records, which compaction removed. Reads all records."""
        found: list[tuple[int, int]] = []
        expected = self.base_offset
        for record in self.records():
            if record.offset > expected:
                found.append((expected, record.offset - 1))
            expected = record.offset + 1
        if expected <= self.last_offset:
            found.append((expected, self.last_offset))
        return found

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def records(self, ranges: OffsetRanges | None = None) -> Iterator[Record]:
        """The records, or those whose offsets are in the ranges; others are skipped without creating them.

        A malformed record raises CorruptBatchError when the iteration reaches it.
        """
        ranges = self._narrowed(ranges)
        walk = self.walk(ranges)
        return walk if not _IS_QUICK or ranges is not None else quick_records(walk)

    def values(self, ranges: OffsetRanges | None = None) -> list[bytes | None]:
        """The values of the same records."""
        records = self.records(ranges)
        return records.values() if isinstance(records, RecordWalk) else [record.value for record in records]

    def walk(self, ranges: OffsetRanges | None = None) -> RecordWalk:
        """A walk over the same records, for `RecordColumns`, which doesn't create them."""
        self.open()
        walk = RecordWalk(
            cast(memoryview, self._opened),
            self._start,
            self.record_count,
            self.base_offset,
            self.last_offset_delta,
            self.max_timestamp if self.has_append_time else self.base_timestamp,
            self.has_append_time,
            self._narrowed(ranges),
        )
        if ranges is not None:
            if self._walk is not None and (stop := self._walk.stopped()) is not None:
                walk.resume(stop)  # else thousands of small ranges would read the batch from its start each
            self._walk = walk
        return walk

    def _narrowed(self, ranges: OffsetRanges | None) -> OffsetRanges | None:
        """None if the ranges contain the whole batch, so that a walk needn't check them."""
        if ranges is not None and len(ranges) == 1:
            [(first, last)] = ranges
            if first <= self.base_offset and last >= self.last_offset:
                return None
        return ranges

    def _check(self) -> None:
        actual = crc32c(self.view[header.CHECKSUM_BEHIND :])
        if actual != self.checksum:
            reason = f"the checksum is {self.checksum:#010x}, the bytes give {actual:#010x}"
            raise self._broken(header.CHECKSUM_AT, reason)
        if self.record_count < 0:
            raise self._broken(header.HEADER.size - 4, f"a record count of {self.record_count}")
        if not 0 <= self.last_offset_delta <= header.MAX_INT64 - self.base_offset or self.base_offset < 0:
            reason = f"offsets from {self.base_offset} to {self.base_offset}+{self.last_offset_delta}"
            raise self._broken(0, reason)

    def _decompress(self) -> None:
        view, start = self.view, header.HEADER.size
        codec = self.attributes & header.CODEC_MASK
        if codec and len(view) > start:
            try:
                packed = view[start:]
                budget = self._budget
                view = decompress(codec, packed) if budget is None else budget.decompress(codec, packed)
            except BudgetSpentError:
                raise
            except SectionTooLarge as large:
                most = decompressed_bound(codec, packed)
                reason = f"its {len(packed)} bytes: {large.reason} (at most {most})"
                raise OversizedBatchError(self.base_offset, start, reason) from large
            except DecodeError as broken:
                raise self._broken(start, broken.reason) from broken
            start = 0
        room = len(view) - start
        if self.record_count * _SMALLEST_RECORD > room or (room and not self.record_count):
            raise self._broken(header.HEADER.size - 4, f"{self.record_count} records in {room} bytes")
        if self.record_count > self.last_offset_delta + 1:
            reason = f"{self.record_count} records in {self.last_offset_delta + 1} offsets"
            raise self._broken(header.HEADER.size - 4, reason)
        self._opened = view
        self._start = start

    def _broken(self, position: int, reason: str) -> CorruptBatchError:
        return CorruptBatchError(self.base_offset, position, reason)

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "keep bytes(batch.view), and read them again with read_batches")

    def __repr__(self) -> str:
        return (
            f"Batch(base_offset={self.base_offset}, last_offset={self.last_offset}, "
            f"record_count={self.record_count}, size={self.size}, attributes={self.attributes:#x})"
        )


__all__ = ["Batch", "ControlType", "OffsetRanges", "Record", "RecordWalk", "read_batches"]
