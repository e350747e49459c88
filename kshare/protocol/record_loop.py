"""A faster way to read a whole batch if nothing is compiled.

In the interpreter, calls and attribute access cost most. So this loop keeps everything in local variables and handles
only usual records: with short numbers and without headers. All others, including malformed ones, are read by
`RecordWalk`, one at a time, so all checks are there. If compiled, the walk itself is faster than this could be.
"""

from __future__ import annotations

from collections.abc import Iterator

from kshare.protocol.record import Record, RecordWalk

_NOT_SHORT = ~0x3FFE
"""The bits that are 0 in even numbers of one or two bytes."""
_NOT_TINY = ~0x7E
"""The bits that are 0 in even numbers of one byte."""
_LONGEST_NUMBER = 10


class _ReadyRecord(Record):
    """A record with key and value as attributes: cheaper here than properties that create them."""

    __slots__ = ("key", "value")

    _header_count = 0
    key: bytes | None
    value: bytes | None


def quick_records(walk: RecordWalk) -> Iterator[Record]:
    """Returns the same records as the walk, which must be new.

    Everything is read first and checked afterwards: reading too far hits another record or, at the end of the batch,
    the zeros that `memory.readable` adds there.
    """
    data, end, left, position, last_delta = (
        walk._data,
        walk._end,
        walk._left,
        walk._position,
        walk._last_delta,
    )
    base_offset, base_timestamp, has_append_time = (
        walk._base_offset,
        walk._base_timestamp,
        walk._has_append_time,
    )
    previous = -1
    while left:
        record = _ReadyRecord()
        at = position + 1
        size = data[position]
        if size > 0x7F:
            size += (data[at] << 7) - 0x80
            at += 1
        stop = at + (size >> 1)
        record._timestamp_at = at = at + 1
        if data[at] > 0x7F:
            at += 1
            while data[at] > 0x7F:
                at += 1
            if at - record._timestamp_at >= _LONGEST_NUMBER:
                stop = 0
        delta = data[at + 1]
        at += 2
        if delta > 0x7F:
            delta += (data[at] << 7) - 0x80
            at += 1
        key = data[at]
        record.key = None if key == 1 else data[at + 1 : (at := at + (key >> 1)) + 1]
        value = data[at + 1]
        at += 2
        if value > 0x7F:
            value += (data[at] << 7) - 0x80
            at += 1
        record.value = None if value == 1 else data[at : (at := at + (value >> 1))]
        if (
            at + 1 != stop
            or data[at]
            or (size | delta) & _NOT_SHORT
            or (key != 1 and key & _NOT_TINY)
            or (value != 1 and value & _NOT_SHORT)
            or not previous < delta >> 1 <= last_delta
            or (stop < end) == (left == 1)
            or stop > end
        ):
            yield walk.read_at(position, left, previous)
            previous, position = walk._previous_delta, walk._position
        else:
            previous = delta >> 1
            position = stop
            record.offset = base_offset + previous
            record._data = data
            record._stop = stop
            record._base_timestamp = base_timestamp
            record.has_append_time = has_append_time
            yield record
        left -= 1
