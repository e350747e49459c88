"""Builds record batches, and changes what a broker changes in them: base offset, leader epoch, append time.

Callers pass offsets, sequences and timestamps. Records are encoded when they are appended, so `size` is known before
the batch is built.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kshare.errors import EncodeError
from kshare.fast import memory
from kshare.protocol import record_header as header
from kshare.protocol.checksum import crc32c
from kshare.protocol.compression import Compression, compress
from kshare.protocol.record_header import ControlType

__all__ = ["BatchBuilder"]

Buffer = bytes | bytearray | memoryview

_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CHECKSUM = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_CONTROL_KEY = struct.Struct(">hh")
_END_TRANSACTION = struct.Struct(">hi")


def write_number(out: bytearray, number: int) -> None:
    """A zigzag varint of up to 64 bits."""
    number = number << 1 ^ number >> 63
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


class BatchBuilder:
    """Collects records, then builds their batch."""

    def __init__(
        self,
        *,
        compression: Compression = Compression.NONE,
        base_offset: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        append_time: int | None = None,
    ) -> None:
        self.compression = compression
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self.is_control = is_control
        self.append_time = append_time
        self.record_count = 0
        self._records = bytearray()
        self._base_timestamp = -1
        self._max_timestamp = -1
        self._last_delta = -1

    @property
    def size(self) -> int:
        """The size of the batch without compression."""
        return header.HEADER.size + len(self._records)

    def append(
        self,
        value: Buffer | None,
        *,
        timestamp: int,
        key: Buffer | None = None,
        headers: Iterable[tuple[str, Buffer | None]] = (),
        offset: int | None = None,
    ) -> None:
        """Adds a record after the last one, or at a later offset, as compaction leaves gaps."""
        delta = self._last_delta + 1 if offset is None else offset - self.base_offset
        if not self._last_delta < delta <= header.MAX_INT32:
            reason = f"{offset} is not after {self.base_offset + self._last_delta}, or too far after it"
            raise EncodeError("offset", reason)
        if self.record_count == 0:
            self._base_timestamp = timestamp
        body = bytearray(1)
        write_number(body, memory.wrapped(timestamp - self._base_timestamp))
        write_number(body, delta)
        _write_bytes(body, key)
        _write_bytes(body, value)
        pairs = list(headers)
        write_number(body, len(pairs))
        for name, content in pairs:
            _write_bytes(body, name.encode())
            _write_bytes(body, content)
        write_number(self._records, len(body))
        self._records += body
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self._last_delta = delta
        self.record_count += 1

    def build(self, *, last_offset: int | None = None) -> bytearray:
        """Builds the batch. `last_offset` may be after the last record, or given for a batch without records."""
        last_delta = self._last_delta if last_offset is None else last_offset - self.base_offset
        if last_delta < max(self._last_delta, 0):
            raise EncodeError("last_offset", "a batch must span at least one offset, and all of its records")
        payload = compress(self.compression, self._records) if self._records else b""
        batch = bytearray(header.HEADER.size)
        header.HEADER.pack_into(
            batch,
            0,
            self.base_offset,
            len(batch) + len(payload) - header.LENGTH_BEHIND,
            self.leader_epoch,
            header.MAGIC,
            0,
            self._attributes(),
            last_delta,
            self._base_timestamp,
            self._max_timestamp if self.append_time is None else self.append_time,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )
        batch += payload
        _write_checksum(batch)
        return batch

    def _attributes(self) -> int:
        return (
            self.compression
            | (header.APPEND_TIME_BIT if self.append_time is not None else 0)
            | (header.TRANSACTIONAL_BIT if self.is_transactional else 0)
            | (header.CONTROL_BIT if self.is_control else 0)
        )


def build_end_marker(
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch that ends a transaction: COMMIT or ABORT."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    value = _END_TRANSACTION.pack(0, coordinator_epoch)
    builder.append(value, key=_CONTROL_KEY.pack(0, kind), timestamp=timestamp)
    return builder.build()


def assign_offset(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Sets a batch's offset and leader epoch, in place. The checksum covers neither field."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, header.LEADER_EPOCH_AT, leader_epoch)


def assign_append_time(batch: bytearray | memoryview, timestamp: int) -> None:
    """Sets the broker's timestamp for all records of a batch, in place."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, header.ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, header.ATTRIBUTES_AT, attributes | header.APPEND_TIME_BIT)
    _TIMESTAMP.pack_into(batch, header.MAX_TIMESTAMP_AT, timestamp)
    _write_checksum(batch)


def _write_bytes(out: bytearray, content: Buffer | None) -> None:
    if content is None:
        write_number(out, -1)
    else:
        if isinstance(content, memoryview):
            content = content.tobytes()  # its length is in items, which may be larger than a byte
        write_number(out, len(content))
        out += content


def _write_checksum(batch: bytearray | memoryview) -> None:
    with memoryview(batch) as view, view[header.CHECKSUM_BEHIND :] as covered:
        _CHECKSUM.pack_into(batch, header.CHECKSUM_AT, crc32c(covered))
