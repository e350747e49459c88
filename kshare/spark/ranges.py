"""The ranges of a micro-batch, and the offset token that Spark stores for them.

Only the token survives a crash, so it holds everything that a later process must know:

    batch      counts this query's tokens; no two of its tokens are equal
    acquired   the ranges of this micro-batch: what executors read, however often it is replayed
    owed       ranges of completed micro-batches whose acceptance no broker has confirmed yet
    group      the query's share group: the offsets are meaningless in another one
    member     the query's member id: after a crash, a new process takes the old one's place in the group
    journal    the query's journal, and how far its records are in tokens (only with `settle=journal`)
    starts     the group's start offsets: if one is lower later, the group's offsets were reset
    is_settled_by_row   the user may have settled some of `acquired` otherwise, which the token can't know

It is compact: topics are named once, and ranges are plain numbers.

Decides what a well-formed token is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple, TypeGuard
from uuid import UUID

from kshare.errors import KshareError

VERSION = 1
_WITH_JOURNAL = 2
"""The version of tokens with a journal. Earlier releases of kshare must not ignore it."""

NEW_CHECKPOINT = (
    "a new checkpointLocation and a new output path (files, Delta tables and others skip micro-batches whose numbers "
    'they know), and option("failOnLostCheckpoint", "false")'
)
"""What a query needs to start over when its checkpoint can't be used: for error messages."""


@dataclass(frozen=True, slots=True, order=True)
class RecordRange:
    """Consecutive offsets of one partition that were acquired together, both ends included."""

    topic: str
    topic_id: str
    """As the text of a uuid. Another topic may get the same name later, but never the same id."""
    partition: int
    first: int
    last: int
    delivery_count: int = 1

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def place(self) -> tuple[str, int, int]:
        """Its partition, and where it begins there: to sort ranges as tokens have them."""
        return self.topic_id, self.partition, self.first


def by_partition(ranges: Iterable[RecordRange]) -> Iterator[list[RecordRange]]:
    """Yield the ranges of each partition, ascending."""
    for _, partition_ranges in groupby(sorted(ranges), key=lambda range_: range_.place[:2]):
        yield list(partition_ranges)


def merged_ranges(ranges: Iterable[RecordRange]) -> tuple[RecordRange, ...]:
    """Merge adjacent ranges with the same delivery count, since a token is written for every trigger."""
    found: list[RecordRange] = []
    for range_ in sorted(ranges, key=lambda range_: range_.place):
        before = found[-1] if found else None
        if (
            before is not None
            and before.place[:2] == range_.place[:2]
            and before.last + 1 == range_.first
            and before.delivery_count == range_.delivery_count
        ):
            found[-1] = replace(before, last=range_.last)
        else:
            found.append(range_)
    return tuple(found)


class TokenError(KshareError, ValueError):
    """The checkpoint contains an offset that this source didn't write."""


class StartOffset(NamedTuple):
    """Where a group starts reading in a partition."""

    topic_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """What a token says about the query's journal."""

    journal: str
    """The journal's id."""
    place: str
    """Where it is: see `JournalStore.place`."""
    taken: int
    """Records before this position of the journal are in this token, or in an earlier one."""


@dataclass(frozen=True, slots=True)
class Token:
    """What Spark calls an offset of this source."""

    batch: int = 0
    acquired: tuple[RecordRange, ...] = ()
    owed: tuple[RecordRange, ...] = ()
    is_settled_by_row: bool = False
    member: str = ""
    group: str = ""
    """Empty in tokens of versions that didn't store it."""
    journal: JournalPosition | None = None
    """Where the next token continues, for a query with a journal."""
    starts: tuple[StartOffset, ...] = ()
    """Ascending. Empty in tokens of versions that didn't store them, and if they are unknown."""

    @property
    def is_journaled(self) -> bool:
        """Whether `acquired` came from the journal, and was accepted before. The first token that knows it didn't."""
        return self.journal is not None and self.journal.taken > 0

    def follows(self, start: Token) -> bool:
        """Whether this was planned by a process that knew `start`, so that they have no records in common."""
        return self.batch == start.batch + 1 and self.member == start.member

    def to_json(self) -> dict[str, Any]:
        """What Spark stores. Equal tokens have equal text, since Spark compares the text."""
        names = {range_.topic_id: range_.topic for range_ in (*self.acquired, *self.owed)}
        value: dict[str, Any] = {
            "kshare": VERSION if self.journal is None else _WITH_JOURNAL,
            "batch": self.batch,
            "group": self.group,
            "member": self.member,
            "topics": {topic_id: names[topic_id] for topic_id in sorted(names)},
            "acquired": pack_ranges(self.acquired),
            "owed": pack_ranges(self.owed),
        }
        if self.is_settled_by_row:
            value["rows"] = True
        if self.starts:
            value["starts"] = _pack_starts(self.starts)
        if self.journal is not None:
            value["journal"] = {name: getattr(self.journal, name) for name in ("journal", "place", "taken")}
        return value

    @classmethod
    def from_json(cls, value: object) -> Token:
        """Read a token that Spark has stored. Raises TokenError if it is invalid."""
        if not isinstance(value, Mapping) or "kshare" not in value:
            raise TokenError(
                f"the checkpoint contains an offset of another source ({str(value)[:80]}): "
                "give this query a checkpointLocation and an output path of its own"
            )
        if value["kshare"] not in (VERSION, _WITH_JOURNAL):
            raise TokenError(
                f"the checkpoint was written by another version of kshare (offset format "
                f"{value['kshare']!r}, this version reads {VERSION} and {_WITH_JOURNAL}): finish the query with "
                "that version first"
            )
        topics = value.get("topics", {})
        batch = value.get("batch")
        member, group = value.get("member", ""), value.get("group", "")
        named = isinstance(member, str) and isinstance(group, str)
        if not _is_count(batch) or not isinstance(topics, Mapping) or not named:
            raise TokenError(
                f"the offset in the checkpoint is damaged: batch {batch!r} of member {member!r} in group {group!r}"
            )
        try:
            acquired, owed = (
                tuple(unpack_ranges(topics, value.get(name, {}), name)) for name in ("acquired", "owed")
            )
        except TokenError as error:
            raise TokenError(f"the offset in the checkpoint is damaged: {error}") from None
        return cls(
            batch=batch,
            acquired=acquired,
            owed=owed,
            is_settled_by_row=bool(value.get("rows", False)),
            member=member,
            group=group,
            journal=_journal(value.get("journal")),
            starts=_unpack_starts(value.get("starts", {})),
        )

    def check_group(self, group: str) -> None:
        """Raise TokenError for the checkpoint of another group, whose offsets would be mistaken for emitted ones."""
        if self.group and self.group != group:
            raise TokenError(
                f"the checkpoint belongs to group {self.group!r}, and this query reads with group {group!r}: records "
                f"of {group!r} would be accepted without being emitted. Give this query a checkpointLocation and an "
                f'output path of its own, or set option("group", "{self.group}") again'
            )


def _journal(value: object) -> JournalPosition | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        journal, place, taken = (value.get(name) for name in ("journal", "place", "taken"))
        if isinstance(journal, str) and isinstance(place, str) and _is_count(taken):
            return JournalPosition(journal, place, taken)
    raise TokenError(f"the offset in the checkpoint is damaged: its journal is {str(value)[:80]}")


def _pack_starts(starts: Iterable[StartOffset]) -> dict[str, dict[str, int]]:
    """Topic id → partition → offset."""
    packed: dict[str, dict[str, int]] = {}
    for topic_id, partition, offset in sorted(starts):
        packed.setdefault(topic_id, {})[str(partition)] = offset
    return packed


def _unpack_starts(packed: object) -> tuple[StartOffset, ...]:
    """The opposite. Raises TokenError."""
    starts: list[StartOffset] = []
    for topic_id, partitions in packed.items() if isinstance(packed, Mapping) else [("", None)]:
        for number, offset in partitions.items() if isinstance(partitions, Mapping) else [("", -1)]:
            if not _is_uuid(topic_id) or not str(number).isdecimal() or not _is_count(offset):
                raise TokenError(
                    f"the offset in the checkpoint is damaged: its starts are {str(packed)[:80]}"
                )
            starts.append(StartOffset(topic_id, int(number), offset))
    return tuple(sorted(starts))


def pack_ranges(ranges: Iterable[RecordRange]) -> dict[str, dict[str, list[int]]]:
    """Topic id → partition → first, count, deliveries, first, count, deliveries…"""
    packed: dict[str, dict[str, list[int]]] = {}
    for range_ in sorted(ranges, key=lambda range_: range_.place):
        numbers = packed.setdefault(range_.topic_id, {}).setdefault(str(range_.partition), [])
        numbers += (range_.first, len(range_), range_.delivery_count)
    return packed


def unpack_ranges(topics: Mapping[str, Any], packed: object, description: str) -> Iterable[RecordRange]:
    """The opposite of `pack_ranges`. Raises TokenError."""
    if not isinstance(packed, Mapping):
        raise TokenError(f"{description} is {packed!r}")
    for topic_id, partitions in packed.items():
        topic = topics.get(topic_id)
        if not isinstance(topic, str) or not _is_uuid(topic_id) or not isinstance(partitions, Mapping):
            raise TokenError(f"{description} of topic {topic_id!r}")
        for number, flat in partitions.items():
            where = f"{description} of {topic}[{number}]"
            yield from _unpack_partition(topic, topic_id, number, flat, where)


def _unpack_partition(
    topic: str, topic_id: str, number: object, flat: object, where: str
) -> Iterable[RecordRange]:
    is_valid = isinstance(flat, Sequence) and len(flat) % 3 == 0 and all(map(_is_count, flat))
    if not is_valid or not isinstance(number, str) or not number.isdecimal():
        raise TokenError(f"{where} is {str(flat)[:80]}")
    assert isinstance(flat, Sequence)
    end = -1
    for first, count, deliveries in zip(*[iter(flat)] * 3, strict=True):
        if count < 1 or first <= end:
            raise TokenError(f"{where} overlaps at offset {first}")
        end = first + count - 1
        yield RecordRange(topic, topic_id, int(number), first, end, deliveries)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_uuid(text: object) -> bool:
    try:
        return str(UUID(str(text))) == text
    except ValueError:
        return False
