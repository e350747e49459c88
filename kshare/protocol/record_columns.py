"""Records of many batches as columns in Arrow's memory layout, without a Python object for a record.

Decides how the buffers grow; what is well formed is decided by `record`, whose walk fills one `Record` here again and
again. Never imports Arrow: it hands out plain buffers, which `kshare.spark.arrow` wraps.

Compiled through `record_columns.pxd`; uncompiled it works the same and saves nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import kshare.protocol.memory as memory
import kshare.protocol.record as record
from kshare.protocol.record import Record, RecordWalk

_MAX_OFFSET = 2**31 - 1


class BytesBuffers(NamedTuple):
    """A column of byte strings: bit set where there is a value (None: everywhere), int32 offsets, contents."""

    validity: memoryview | None
    offsets: memoryview
    contents: memoryview


class ColumnBuffers(NamedTuple):
    """What `RecordColumns.take` hands over. Row `n`'s headers are those from `header_offsets[n]` to the next."""

    rows: int
    offsets: memoryview
    timestamps: memoryview
    keys: BytesBuffers
    values: BytesBuffers
    header_offsets: memoryview
    header_count: int
    header_names: BytesBuffers
    header_values: BytesBuffers


def _grown(buffer: bytearray, used: int, needed: int) -> bytearray:
    """The buffer, or one of twice the size with what was in it. Never in place: memory views may look at it."""
    if needed <= len(buffer):
        return buffer
    larger = memory.blank(max(needed, 2 * len(buffer)))
    larger[:used] = buffer[:used]
    return larger


class BytesColumn:
    """Grows a column of byte strings. Room must be reserved before values are added."""

    __slots__ = ("_contents", "_offsets", "_validity", "null_count", "rows", "size")

    def __init__(self) -> None:
        self._offsets = bytearray(4)
        self._contents = bytearray()
        self._validity = bytearray()
        self.rows = 0
        self.size = 0
        self.null_count = 0

    def reserve(self, rows: int, size: int) -> None:
        if self.size + size > _MAX_OFFSET:
            raise OverflowError("a column holds 2 GiB at most: take the columns before adding more")
        self._offsets = _grown(self._offsets, 4 * (self.rows + 1), 4 * (self.rows + rows + 1))
        self._contents = _grown(self._contents, self.size, self.size + size)
        missing = (self.rows + rows + 7) // 8 - len(self._validity)
        if missing > 0:
            # Bits are only ever set, hence zeros.
            self._validity = self._validity + bytes(missing + len(self._validity))

    def add(self, source: bytes, start: int, stop: int) -> None:
        """Adds a value, or null if `stop` is negative."""
        rows = self.rows
        if stop < 0:
            self.null_count += 1
        else:
            size = stop - start
            memory.copy(memory.writable(self._contents), self.size, source, start, size)
            self.size += size
            memory.set_bit(memory.writable(self._validity), rows)
        self.rows = rows + 1
        offsets = memory.int32s(self._offsets)
        offsets[rows + 1] = self.size

    def buffers(self) -> BytesBuffers:
        return BytesBuffers(
            memoryview(self._validity)[: (self.rows + 7) // 8] if self.null_count else None,
            memoryview(self._offsets)[: 4 * (self.rows + 1)],
            memoryview(self._contents)[: self.size],
        )


class RecordColumns:
    """Collects the records of walks, one after the other, until they are taken."""

    __slots__ = (
        "_header_names",
        "_header_offsets",
        "_header_values",
        "_keys",
        "_offsets",
        "_timestamps",
        "_values",
        "rows",
    )

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self._offsets = bytearray()
        self._timestamps = bytearray()
        self._header_offsets = bytearray(4)
        self._keys = BytesColumn()
        self._values = BytesColumn()
        self._header_names = BytesColumn()
        self._header_values = BytesColumn()

    @property
    def size(self) -> int:
        """The bytes of keys, values and headers so far."""
        return self._keys.size + self._values.size + self._header_names.size + self._header_values.size

    def append(self, walk: RecordWalk) -> int:
        """Adds the records that are left of the walk and says how many they were.

        If one of them is malformed, those before it stay added and CorruptBatchError is raised.
        """
        scratch = Record.__new__(Record)
        before = self.rows
        self._reserve(walk.records_left(), walk.bytes_left())
        while walk.step(scratch):
            self._add(scratch)
        return self.rows - before

    def _reserve(self, rows: int, size: int) -> None:
        self._offsets = _grown(self._offsets, 8 * self.rows, 8 * (self.rows + rows))
        self._timestamps = _grown(self._timestamps, 8 * self.rows, 8 * (self.rows + rows))
        self._header_offsets = _grown(self._header_offsets, 4 * (self.rows + 1), 4 * (self.rows + rows + 1))
        self._keys.reserve(rows, size)
        self._values.reserve(rows, size)

    def _add(self, one: Record) -> None:
        row = self.rows
        offsets = memory.int64s(self._offsets)
        offsets[row] = one.offset
        timestamps = memory.int64s(self._timestamps)
        timestamps[row] = one.read_timestamp()
        self._keys.add(one._data, one._key_at, one._key_stop)
        self._values.add(one._data, one._value_at, one._value_stop)
        if one._header_count:
            self._add_headers(one)
        self.rows = row + 1
        header_offsets = memory.int32s(self._header_offsets)
        header_offsets[row + 1] = self._header_names.rows

    def _add_headers(self, one: Record) -> None:
        data = one._data
        position = one._headers_at
        # A malformed name grows when it is mended: up to three bytes for one.
        self._header_names.reserve(one._header_count, 3 * (one._stop - position))
        self._header_values.reserve(one._header_count, one._stop - position)
        for _ in range(one._header_count):
            number, position = record.read_number(data, position, one._stop, 28)
            end = position + (number >> 1)
            if memory.is_ascii(data, position, end):
                self._header_names.add(data, position, end)
            else:
                self._add_mended(data[position:end])
            number, position = record.read_number(data, end, one._stop, 28)
            end = position + (number >> 1)
            if number & 1:
                self._header_values.add(data, position, -1)
            else:
                self._header_values.add(data, position, end)
                position = end

    def _add_mended(self, name: bytes) -> None:
        mended = name.decode("utf-8", "replace").encode()
        self._header_names.add(mended, 0, len(mended))

    def take(self) -> ColumnBuffers:
        """The columns so far; the next ones begin empty."""
        taken = ColumnBuffers(
            self.rows,
            memoryview(self._offsets)[: 8 * self.rows],
            memoryview(self._timestamps)[: 8 * self.rows],
            self._keys.buffers(),
            self._values.buffers(),
            memoryview(self._header_offsets)[: 4 * (self.rows + 1)],
            self._header_names.rows,
            self._header_names.buffers(),
            self._header_values.buffers(),
        )
        self._clear()
        return taken
