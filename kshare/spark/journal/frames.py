"""A frame of the journal as bytes: a checksum, and JSON.

    bytes 0-3   KSJ1, the format
    bytes 4-7   CRC-32C of what follows
    from 8      JSON: journal, writer, group, member, start, done, at, size, topics, ranges

The records of a journal have positions: the first one that was ever staged has position 0. A frame covers the positions
from `start` on, one for each offset in its ranges, in the order of topic id, partition and offset.

Decides what a well-formed frame is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kshare.errors import KshareError
from kshare.protocol.checksum import crc32c
from kshare.spark.ranges import RecordRange, TokenError, pack_ranges, unpack_ranges

_MAGIC = b"KSJ1"
_HEADER = 8
_TEXTS = ("journal", "writer", "group", "member")
_NUMBERS = ("start", "done", "at", "size")


class JournalDamaged(KshareError):
    """A part of the journal can't be understood, or is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What one append writes. A frame without ranges claims the journal for its writer, or tells what is done."""

    journal: str
    """The id of the journal. Offset tokens contain it."""
    writer: str
    """The id of the runner that wrote it."""
    group: str
    member: str
    """The query's member id in the group."""
    start: int
    done: int
    """Records before this position are in completed micro-batches."""
    at: int
    """When it was written, in milliseconds since 1970."""
    size: int = 0
    """The size of the records in bytes, as brokers sent them."""
    ranges: tuple[RecordRange, ...] = ()
    is_claim: bool = False
    """From here on, frames of other writers are void."""

    @property
    def end(self) -> int:
        """The position after the last one."""
        return self.start + sum(map(len, self.ranges))

    def ranges_from(self, position: int) -> Iterator[RecordRange]:
        """The ranges from this position on. The first one is cut if necessary."""
        yield from skip(self.ranges, position - self.start)


def skip(ranges: Sequence[RecordRange], records: int) -> Iterator[RecordRange]:
    """All but the first so many records of these ranges."""
    for range_ in ranges:
        if len(range_) > records:
            yield replace(range_, first=range_.first + max(0, records))
        records -= min(records, len(range_))


def encode(frame: Frame) -> bytes:
    value = {
        **{name: getattr(frame, name) for name in (*_TEXTS, *_NUMBERS)},
        "claim": frame.is_claim,
        "topics": {range_.topic_id: range_.topic for range_ in frame.ranges},
        "ranges": pack_ranges(frame.ranges),
    }
    text = json.dumps(value, separators=(",", ":")).encode()
    return _MAGIC + crc32c(text).to_bytes(4, "big") + text


def decode(data: bytes | None) -> Frame:
    """Raises JournalDamaged."""
    if data is None or data[:4] != _MAGIC or len(data) < _HEADER:
        raise JournalDamaged("it isn't a frame of a journal")
    text = data[_HEADER:]
    if crc32c(text).to_bytes(4, "big") != data[4:_HEADER]:
        raise JournalDamaged("its checksum is wrong")
    try:
        value = json.loads(text)
        texts = {name: _text(value[name]) for name in _TEXTS}
        numbers = {name: _number(value[name]) for name in _NUMBERS}
        ranges = tuple(unpack_ranges(value["topics"], value["ranges"], "frame"))
        is_claim = value["claim"] is True
    except (ValueError, KeyError, TypeError, AttributeError, TokenError) as error:
        raise JournalDamaged(f"its contents are invalid: {error}") from None
    return Frame(**texts, **numbers, ranges=ranges, is_claim=is_claim)  # type: ignore[arg-type]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is not a number")
    return value
