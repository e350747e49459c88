"""Records of many batches as columns in Arrow's memory layout, without a Python object per record.

Decides how the buffers grow. `record` checks the records: its walk fills one `Record` again and again. Doesn't import
Arrow: it returns plain buffers, which `kshare.spark.executor.arrow` wraps.

Compiled through `record_columns.pxd`; uncompiled it works the same but isn't faster.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import kshare.fast.memory as memory
import kshare.protocol.record as record
from kshare.protocol.record import Record, RecordWalk
from kshare.protocol.uncopied import refuse_copy

_MAX_OFFSET = 2**31 - 1


class BytesBuffers(NamedTuple):
    """A column of byte strings: a bit for each row with a value (None: all have one), int32 offsets, contents."""

    validity: memoryview | None
    offsets: memoryview
    contents: memoryview


class ColumnBuffers(NamedTuple):
    """The result of `RecordColumns.take`. Row `n`'s headers are those from `header_offsets[n]` to the next."""

    rows: int
    offsets: memoryview
    timestamps: memoryview
    keys: BytesBuffers
    values: BytesBuffers
    header_offsets: memoryview
    header_count: int
    header_names: BytesBuffers
    header_values: BytesBuffers


def _with_room(buffer: bytearray, size: int) -> bytearray:
    """The buffer with at least that many bytes; it at least doubles, so that growing is rare."""
    if size <= len(buffer):
        return buffer
    return memory.grown(buffer, max(size, 2 * len(buffer)))


class BytesColumn:
    """Builds a column of byte strings. Call `reserve` before adding values."""

    __slots__ = (
        "_content_bytes",
        "_contents",
        "_offset_numbers",
        "_offsets",
        "_room",
        "_validity",
        "_validity_bytes",
        "null_count",
        "rows",
        "size",
    )

    def __init__(self) -> None:
        self._offsets = bytearray(4)
        self._contents = bytearray()
        self._validity = bytearray()
        self.rows = 0
        self.size = 0
        self.null_count = 0
        self._room = 0
        self.reserve(0)
        self._make_room(0)

    def reserve(self, rows: int) -> None:
        """Makes room for that many more values; room for their contents is made when they are added."""
        self._offsets = _with_room(self._offsets, 4 * (self.rows + rows + 1))
        missing = (self.rows + rows + 7) // 8 - len(self._validity)
        if missing > 0:
            # All bits are set at first; the bit of each null is cleared.
            self._validity = self._validity + b"\xff" * (missing + len(self._validity))
        self._offset_numbers = memory.int32s(self._offsets)
        self._validity_bytes = memory.writable(self._validity)

    def add(self, source: bytes, start: int, stop: int) -> None:
        """Adds a value, or null if `stop` is negative."""
        rows = self.rows
        if stop < 0:
            self.null_count += 1
            memory.clear_bit(self._validity_bytes, rows)
        else:
            if stop - start > self._room:
                self._make_room(stop - start)
            memory.copy(self._content_bytes, self.size, source, start, stop - start)
            self.size += stop - start
            self._room -= stop - start
        self._offset_numbers[rows + 1] = self.size
        self.rows = rows + 1

    def _make_room(self, size: int) -> None:
        if self.size + size > _MAX_OFFSET:
            raise OverflowError("a column holds 2 GiB at most: take the columns before adding more")
        self._contents = _with_room(self._contents, self.size + size)
        self._content_bytes = memory.writable(self._contents)
        self._room = len(self._contents) - self.size

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "take its buffers")

    def buffers(self) -> BytesBuffers:
        return BytesBuffers(
            memoryview(self._validity)[: (self.rows + 7) // 8] if self.null_count else None,
            memoryview(self._offsets)[: 4 * (self.rows + 1)],
            memoryview(self._contents)[: self.size],
        )


class RecordColumns:
    """Collects the records of walks until they are taken."""

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
        """The size of all keys, values and headers so far, in bytes."""
        return self._keys.size + self._values.size + self._header_names.size + self._header_values.size

    def append(self, walk: RecordWalk) -> int:
        """Adds the records that are left of the walk, and returns their number.

        If one is malformed, the ones before it stay added, and CorruptBatchError is raised.
        """
        before = self.rows
        row = before
        self._reserve(walk.records_left())
        offsets = memory.int64s(self._offsets)
        timestamps = memory.int64s(self._timestamps)
        header_offsets = memory.int32s(self._header_offsets)
        scratch = Record.__new__(Record)
        try:
            while walk.step(scratch):
                offsets[row] = scratch.offset
                timestamps[row] = scratch.read_timestamp()
                self._keys.add(scratch._data, scratch._key_at, scratch._key_stop)
                self._values.add(scratch._data, scratch._value_at, scratch._value_stop)
                if scratch._header_count:
                    self._add_headers(scratch)
                row += 1
                header_offsets[row] = self._header_names.rows
        finally:
            self.rows = row
        return row - before

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "take the columns")

    def _reserve(self, more: int) -> None:
        rows = self.rows + more
        self._offsets = _with_room(self._offsets, 8 * rows)
        self._timestamps = _with_room(self._timestamps, 8 * rows)
        self._header_offsets = _with_room(self._header_offsets, 4 * (rows + 1))
        self._keys.reserve(more)
        self._values.reserve(more)

    def _add_headers(self, one: Record) -> None:
        data = one._data
        position = one._headers_at
        self._header_names.reserve(one._header_count)
        self._header_values.reserve(one._header_count)
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
        """Returns the columns so far, and starts empty ones."""
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
