"""Records, and the walk over an opened batch that creates them.

Decides whether each record is well formed and within the requested offset ranges. Checksums and decompression are done
before, by `records`. A record contains positions; key, value and headers are copied when they are read, so parts that
aren't read cost nothing. In return, a record keeps its batch's bytes alive: to keep many records for long, keep their
values.

Compiled through `record.pxd`. Numbers of one and two bytes, which nearly all are, are read in place: a call for each
would make the uncompiled walk three times slower. From `brink` on, two bytes can't be read without a check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import kshare.fast.memory as memory
import kshare.fast.uncollected as uncollected
from kshare.errors import CorruptBatchError
from kshare.protocol.uncopied import refuse_copy

OffsetRanges = Sequence[tuple[int, int]]
"""First and last offset, both included; ascending and not overlapping."""

_LONGEST_NUMBER = 10

Stop = tuple[int, int, int]
"""Position of a record, how many records are left with it, and the offset delta of the record before it."""

Headers = tuple[tuple[str, bytes | None], ...]


def read_number(data: bytes, position: int, end: int, last_shift: int) -> tuple[int, int]:
    """A varint, still zigzag-encoded, and the position after it.

    If it is cut off or too long, the position is after `end`, as it is for all further reads: one check after several
    reads is enough. `last_shift` is 28 for 32-bit numbers and 63 for 64-bit ones.
    """
    if position >= end:
        return 0, end + 1
    byte = data[position]
    position += 1
    number = byte & 0x7F
    shift = 0
    while byte > 0x7F:
        shift += 7
        if position >= end or shift > last_shift:
            return 0, end + 1
        byte = data[position]
        position += 1
        # Only one bit of the tenth byte counts: Python would keep the bits that C and Java drop.
        number |= (byte & (0x7F if shift < 63 else 1)) << shift
    return number, position


class Record:
    """A record as the producer sent it, with its offset and timestamp in the log."""

    __slots__ = (
        "_base_timestamp",
        "_data",
        "_header_count",
        "_headers_at",
        "_kept",
        "_key_at",
        "_key_stop",
        "_stop",
        "_timestamp_at",
        "_value_at",
        "_value_stop",
        "has_append_time",
        "offset",
    )

    _base_timestamp: int
    _data: bytes
    _header_count: int
    _headers_at: int
    _key_at: int
    _key_stop: int
    _kept: memoryview
    _stop: int
    _timestamp_at: int
    _value_at: int
    _value_stop: int
    has_append_time: bool
    offset: int

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970: from the producer, or from the broker if `has_append_time`."""
        return self.read_timestamp()

    def read_timestamp(self) -> int:
        if self.has_append_time:
            return self._base_timestamp
        number, _ = read_number(self._data, self._timestamp_at, self._stop, 63)
        return memory.wrapped(self._base_timestamp + (number >> 1 ^ -(number & 1)))

    @property
    def key(self) -> bytes | None:
        if self._key_stop < 0:
            return None
        return self._data[self._key_at : self._key_stop]

    @property
    def value(self) -> bytes | None:
        if self._value_stop < 0:
            return None
        return self._data[self._value_at : self._value_stop]

    @property
    def headers(self) -> Headers:
        """Names and values in the producer's order; a name may occur more than once."""
        if self._header_count == 0:
            return ()
        return self._read_headers()

    def _read_headers(self) -> Headers:
        data = self._data
        position = self._headers_at
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(self._header_count):
            number, position = read_number(data, position, self._stop, 28)
            end = position + (number >> 1)
            # As in Java, malformed names get replacement characters; they aren't errors.
            name = data[position:end].decode("utf-8", "replace")
            number, position = read_number(data, end, self._stop, 28)
            if number & 1:
                headers.append((name, None))
            else:
                end = position + (number >> 1)
                headers.append((name, data[position:end]))
                position = end
        return tuple(headers)

    @property
    def header_count(self) -> int:
        return self._header_count

    def some_headers(self, most: int, prefix: bytes = b"") -> Headers:
        """The first `most` of the headers, and of the others at most as many whose names begin with `prefix`.

        For those who show what others wrote: a kilobyte, decompressed, may have millions of headers.
        """
        return _some_headers(self, most, prefix)

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "keep its offset, timestamp, key, value and headers, which are plain values")

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )


def _some_headers(record: Record, most: int, prefix: bytes) -> Headers:
    """Headers that aren't wanted are skipped without creating objects."""
    data = record._data
    stop, left, position = record._stop, record._header_count, record._headers_at
    size, first = len(prefix), prefix[0] if prefix else 0
    headers: list[tuple[str, bytes | None]] = []
    room, others = most, most if prefix else 0
    while left > 0 and (room > 0 or others > 0):
        left -= 1
        number, position = read_number(data, position, stop, 28)
        start, position = position, position + (number >> 1)
        name_end = position
        number, position = read_number(data, position, stop, 28)
        value_at = position
        if not number & 1:
            position += number >> 1
        if room > 0:
            room -= 1
        elif name_end - start >= size and data[start] == first and data[start : start + size] == prefix:
            others -= 1
        else:
            continue
        value = None if number & 1 else data[value_at:position]
        headers.append((data[start:name_end].decode("utf-8", "replace"), value))
    return tuple(headers)


class RecordWalk:
    """Iterates over the records of one batch that are in the ranges. Ends with the last range, not with the batch."""

    __slots__ = (
        "_base_offset",
        "_base_timestamp",
        "_broken_at",
        "_count",
        "_data",
        "_end",
        "_first",
        "_has_append_time",
        "_kept",
        "_last",
        "_last_delta",
        "_left",
        "_position",
        "_previous_delta",
        "_range_index",
        "_ranges",
        "_stopped",
    )

    def __init__(
        self,
        view: memoryview,
        start: int,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        has_append_time: bool,
        ranges: OffsetRanges | None,
    ) -> None:
        if not view.c_contiguous or view.itemsize != 1 or not 0 <= start <= len(view):
            raise ValueError(
                f"records are read from bytes in one piece, from 0 to {len(view)}, not from {start}"
            )
        self._kept = uncollected.kept(view)
        self._data = memory.readable(view)
        self._position = start
        self._end = len(view)
        self._count = count
        self._left = count
        self._broken_at = -1
        self._base_offset = base_offset
        self._last_delta = last_delta
        self._previous_delta = -1
        self._base_timestamp = base_timestamp
        self._has_append_time = has_append_time
        self._ranges = ranges
        self._range_index = 0
        self._first = 0
        self._last = last_delta
        self._stopped: Stop | None = None
        if ranges is not None and not self._next_range(0):
            self._left = 0

    def __iter__(self) -> RecordWalk:
        return self

    def __next__(self) -> Record:
        record = Record.__new__(Record)
        if not self.step(record):
            raise StopIteration
        return record

    def __reduce__(self) -> NoReturn:
        refuse_copy(self, "walk the batch again")

    def records_left(self) -> int:
        """How many records of the batch are left, in the ranges or not."""
        return self._left

    def broken_at(self) -> int:
        """The offset, or the lowest possible one, of the malformed record that ended the walk; -1 if there is none."""
        return self._broken_at

    def stopped(self) -> Stop | None:
        """Where it ended before the end of the batch: the first record behind its ranges."""
        return self._stopped

    def resume(self, stop: Stop) -> None:
        """Skips the records in front of this place, where another walk over the batch has ended."""
        position, left, previous_delta = stop
        is_ahead = self._position <= position <= self._end and self._first > previous_delta
        if is_ahead and self._left > 0:  # else the batch has nothing of the ranges
            self._position = position
            self._left = left
            self._previous_delta = previous_delta

    def values(self) -> list[bytes | None]:
        """The values of the records that are left, without creating records."""
        found: list[bytes | None] = []
        one = Record.__new__(Record)
        while self.step(one):
            found.append(None if one._value_stop < 0 else one._data[one._value_at : one._value_stop])
        return found

    def read_at(self, position: int, left: int, previous_delta: int) -> Record:
        """The record at that position: for `record_loop`, if it can't read it itself."""
        if not 0 <= position <= self._end:
            raise IndexError(f"the records end at byte {self._end}, before {position}")
        self._position = position
        self._left = left
        self._previous_delta = previous_delta
        return next(self)

    def step(self, record: Record) -> bool:
        """Turns `record` into the next one; returns False if there is none."""
        data, end = self._data, self._end
        brink = end - 1
        while self._left > 0:
            at = self._position
            number = data[at] if at < brink else 0x80
            at += 1
            if number > 0x7F:
                if at < brink and (more := data[at]) < 0x80:
                    number += (more << 7) - 0x80
                    at += 1
                else:
                    number, at = read_number(data, at - 1, end, 28)
            stop = at + (number >> 1)
            if stop > end or number & 1:
                raise self._broken(at, "its length doesn't fit into the batch", is_placed=False)
            # The timestamp comes after one byte of attributes, which this format doesn't use.
            at += 1
            timestamp_at = at
            while at < brink and data[at] > 0x7F:
                at += 1
            at += 1
            if at - timestamp_at > _LONGEST_NUMBER:
                raise self._broken(at, "its timestamp is too long", is_placed=False)
            number = data[at] if at < brink else 0x80
            at += 1
            if number > 0x7F:
                if at < brink and (more := data[at]) < 0x80:
                    number += (more << 7) - 0x80
                    at += 1
                else:
                    number, at = read_number(data, at - 1, end, 28)
            delta = number >> 1
            if at > stop or number & 1 or delta <= self._previous_delta or delta > self._last_delta:
                raise self._broken(at, "its offset is out of order, or cut off", is_placed=False)
            if delta > self._last and not self._next_range(delta):
                self._stopped = (self._position, self._left, self._previous_delta)
                self._left = 0
                break
            self._previous_delta = delta
            self._position = stop
            self._left -= 1
            if self._left == 0 and stop != end:
                raise self._broken(stop, f"{end - stop} bytes after the last one")
            if delta >= self._first:
                record.offset = self._base_offset + delta
                record._timestamp_at = timestamp_at
                self._find_parts(record, at, stop)
                return True
        return False

    def _find_parts(self, record: Record, at: int, stop: int) -> None:
        data = self._data
        brink = stop - 1
        number = data[at] if at < brink else 0x80
        at += 1
        if number > 0x7F:
            if at < brink and (more := data[at]) < 0x80:
                number += (more << 7) - 0x80
                at += 1
            else:
                number, at = read_number(data, at - 1, stop, 28)
        record._key_at = at
        if number == 1:
            record._key_stop = -1
        else:
            at += number >> 1
            record._key_stop = at
            if number & 1:
                raise self._broken(at, "its key's length is negative")
        number = data[at] if at < brink else 0x80
        at += 1
        if number > 0x7F:
            if at < brink and (more := data[at]) < 0x80:
                number += (more << 7) - 0x80
                at += 1
            else:
                number, at = read_number(data, at - 1, stop, 28)
        record._value_at = at
        if number == 1:
            record._value_stop = -1
        else:
            at += number >> 1
            record._value_stop = at
            if number & 1:
                raise self._broken(at, "its value's length is negative")
        number = data[at] if at < stop else 0x80
        if number == 0:
            at += 1
        else:
            number, at = read_number(data, at, stop, 28)
        record._header_count = number >> 1
        record._headers_at = at
        if number:
            at = self._behind_headers(number, at, stop)
        if at != stop:
            raise self._broken(at, "its parts don't fill its length")
        record._data = data
        record._kept = self._kept
        record._stop = stop
        record._base_timestamp = self._base_timestamp
        record.has_append_time = self._has_append_time

    def _behind_headers(self, count: int, at: int, stop: int) -> int:
        data = self._data
        if count & 1:
            raise self._broken(at, "its number of headers is negative")
        count >>= 1
        while count > 0 and at <= stop:
            number, at = read_number(data, at, stop, 28)
            if number & 1:
                raise self._broken(at, "a header key's length is negative")
            at += number >> 1
            number, at = read_number(data, at, stop, 28)
            if not number & 1:
                at += number >> 1
            elif number != 1:
                raise self._broken(at, "a header value's length is negative")
            count -= 1
        return at

    def _next_range(self, delta: int) -> bool:
        """Goes to the next range that ends at or after the offset; returns False if there is none."""
        ranges = self._ranges
        if ranges is None:
            return False
        while self._range_index < len(ranges):
            first, last = ranges[self._range_index]
            self._range_index += 1
            if last - self._base_offset >= delta and first - self._base_offset <= self._last_delta:
                self._first = first - self._base_offset
                self._last = last - self._base_offset
                return True
        return False

    def _broken(self, position: int, reason: str, *, is_placed: bool = True) -> CorruptBatchError:
        """`is_placed` if the offset of the malformed record is known."""
        error = CorruptBatchError(self._base_offset, position, f"record {self._count - self._left}: {reason}")
        # Later records can't be found. Continuing would only raise the same error again.
        self._broken_at = self._base_offset + self._previous_delta + (not is_placed)
        self._left = 0
        return error
