"""What `__share_group_state` says, folded: the present state of each share-partition, out of snapshots and updates.

The topic holds a record for every change that the share coordinator makes durable. Keys say which share-partition it
is about and of which kind the record is:

    record                              | what is known afterwards
    ------------------------------------+----------------------------------------------------------------------
    snapshot                            | what it says, and nothing else
    update on the snapshot that is known| as before, with its ranges laid over, cut off before its start offset
    update on another snapshot          | as before: it belongs to a snapshot that was superseded, or never read
    tombstone                           | nothing
    another kind, or nonsense           | as before

Where two records speak of the same offset, the one with more deliveries is right, and among equals the later of the
states: updates may come to the log in another order than the deliveries they tell of.

Decides what a record means. Never reads one from anywhere. Locks are not in here: acquired records are never stored.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from kshare.errors import DecodeError
from kshare.protocol.message import Message
from kshare.protocol.messages import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue

TOPIC = "__share_group_state"
UNDECIDED = -1
"""As a start offset: nobody has said yet where the share-partition begins."""

_VERSION = struct.Struct(">h")
_KEYS: dict[int, type[ShareSnapshotKey] | type[ShareUpdateKey]] = {0: ShareSnapshotKey, 1: ShareUpdateKey}


class Delivery(IntEnum):
    """States of records as they are stored."""

    AVAILABLE = 0
    ACKNOWLEDGED = 2
    ARCHIVED = 4


SETTLED = frozenset({Delivery.ACKNOWLEDGED, Delivery.ARCHIVED})
"""Nobody gets these records again."""


class SharePartition(NamedTuple):
    """Whose state it is."""

    group: str
    topic_id: bytes
    partition: int


class StateRange(NamedTuple):
    """Offsets in one state, both ends included."""

    first: int
    last: int
    state: int
    """A Delivery, or the bare number of a state that is newer than this."""
    deliveries: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_settled(self) -> bool:
        return self.state in SETTLED

    @property
    def weight(self) -> tuple[int, int]:
        return self.deliveries, self.state


@dataclass(frozen=True, slots=True)
class ShareState:
    """What is known of one share-partition. Offsets in no range are available and were never delivered."""

    start_offset: int
    """All before it is settled; UNDECIDED if nobody has said."""
    ranges: tuple[StateRange, ...]
    """Ascending, without overlaps; neighbours that say the same are one."""
    state_epoch: int
    """Counts how often the group's offsets were set anew."""
    leader_epoch: int
    snapshot_epoch: int
    complete_count: int
    """Settled records behind the start offset; -1 where the broker doesn't say (before Kafka 4.2)."""
    updates: int = 0
    """Updates since the snapshot."""

    def covering(self, first: int, last: int) -> Iterator[StateRange]:
        """All of first..last in order: what is stored, and between it what was never delivered."""
        at = max(first, self.start_offset, 0)
        for each in self.ranges[bisect_left(self.ranges, at, key=_last) :]:
            if each.first > last:
                break
            if each.first > at:
                yield StateRange(at, each.first - 1, Delivery.AVAILABLE, 0)
            cut = each._replace(first=max(each.first, at), last=min(each.last, last))
            yield cut
            at = cut.last + 1
        if at <= last:
            yield StateRange(at, last, Delivery.AVAILABLE, 0)

    def open_ranges(self, end: int) -> Iterator[StateRange]:
        """From the start offset up to, not including, `end`: what isn't settled."""
        return (each for each in self.covering(self.start_offset, end - 1) if not each.is_settled)

    def first_open(self, offset: int = 0) -> int:
        """The first offset from `offset` on that isn't settled: brokers store a new start with the next change."""
        at = max(offset, self.start_offset, 0)
        for each in self.ranges[bisect_left(self.ranges, at, key=_last) :]:
            if each.first > at or not each.is_settled:
                break
            at = each.last + 1
        return at

    @property
    def window_end(self) -> int:
        """One behind the last offset of which anything is stored: it was delivered at least once."""
        return self.ranges[-1].last + 1 if self.ranges else self.start_offset


@dataclass(frozen=True, slots=True)
class Told:
    """One record, read: what it says, and what it changed."""

    where: SharePartition
    message: ShareSnapshotValue | ShareUpdateValue | None
    """None: a tombstone."""
    before: ShareState | None
    after: ShareState | None

    @property
    def is_applied(self) -> bool:
        """False for an update of another snapshot."""
        return not isinstance(self.message, ShareUpdateValue) or self.after is not self.before


class ShareStates:
    """The fold: feed it the records of a partition of the topic in their order."""

    def __init__(self) -> None:
        self.states: dict[SharePartition, ShareState] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> Told | None:
        """Takes a record in; None if it is none that this knows."""
        where, kind = _read_key(key)
        if where is None:
            return None
        before = self.states.get(where)
        message = _read_value(kind, value)
        if isinstance(message, ShareSnapshotValue):
            self.states[where] = _from_snapshot(message)
        elif isinstance(message, ShareUpdateValue):
            if before is not None and before.snapshot_epoch == message.snapshot_epoch:
                self.states[where] = _updated(before, message)
        elif value is None and kind is ShareSnapshotKey:
            self.states.pop(where, None)
        else:
            return None
        return Told(where, message, before, self.states.get(where))


def _read_key(key: bytes | None) -> tuple[SharePartition | None, type[Message] | None]:
    if key is None or len(key) < _VERSION.size:
        return None, None
    kind = _KEYS.get(_VERSION.unpack_from(key)[0])
    if kind is None:
        return None, None
    try:
        read = kind.decode(key[_VERSION.size :], 0)
    except DecodeError:
        return None, None
    return SharePartition(read.group_id, read.topic_id, read.partition), kind


def _read_value(
    kind: type[Message] | None, value: bytes | None
) -> ShareSnapshotValue | ShareUpdateValue | None:
    """None for nothing, for nonsense, and for a version that is newer than this."""
    if value is None or len(value) < _VERSION.size or _VERSION.unpack_from(value)[0] != 0:
        return None
    try:
        if kind is ShareSnapshotKey:
            return ShareSnapshotValue.decode(value[_VERSION.size :], 0)
        return ShareUpdateValue.decode(value[_VERSION.size :], 0)
    except DecodeError:
        return None


def _from_snapshot(value: ShareSnapshotValue) -> ShareState:
    return ShareState(
        value.start_offset,
        laid_over((), ranges_said(value), value.start_offset),
        value.state_epoch,
        value.leader_epoch,
        value.snapshot_epoch,
        value.delivery_complete_count,
    )


def _updated(state: ShareState, value: ShareUpdateValue) -> ShareState:
    start = state.start_offset if value.start_offset == UNDECIDED else value.start_offset
    return replace(
        state,
        start_offset=start,
        ranges=laid_over(state.ranges, ranges_said(value), start),
        leader_epoch=value.leader_epoch,
        complete_count=value.delivery_complete_count,
        updates=state.updates + 1,
    )


def ranges_said(value: ShareSnapshotValue | ShareUpdateValue) -> list[StateRange]:
    """As they stand in the record."""
    return [
        StateRange(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in value.state_batches
    ]


def laid_over(known: Sequence[StateRange], said: Iterable[StateRange], start: int) -> tuple[StateRange, ...]:
    """What holds once `said` is known too; nothing before `start`."""
    ranges = list(known)
    for one in said:
        if one.first <= one.last:
            _lay(ranges, one)
    gone = bisect_left(ranges, start, key=_last)
    del ranges[:gone]
    if ranges and ranges[0].first < start:
        ranges[0] = ranges[0]._replace(first=start)
    return tuple(ranges)


def _lay(ranges: list[StateRange], new: StateRange) -> None:
    """Changes only the neighbourhood of `new`, for there may be thousands of ranges and thousands of updates."""
    low = bisect_left(ranges, new.first - 1, key=_last)
    high = low
    pieces: list[StateRange] = []
    at = new.first
    while high < len(ranges) and ranges[high].first <= new.last + 1:
        old = ranges[high]
        high += 1
        pieces.append(old._replace(last=min(old.last, new.first - 1)))
        pieces.append(new._replace(first=at, last=min(old.first - 1, new.last)))
        both = max(old, new, key=lambda each: each.weight)
        pieces.append(both._replace(first=max(old.first, new.first), last=min(old.last, new.last)))
        pieces.append(old._replace(first=max(old.first, new.last + 1)))
        at = max(at, old.last + 1)
    pieces.append(new._replace(first=at))
    ranges[low:high] = _joined(each for each in pieces if each.first <= each.last)


def _joined(pieces: Iterable[StateRange]) -> list[StateRange]:
    joined: list[StateRange] = []
    for each in pieces:
        if joined and joined[-1].weight == each.weight and joined[-1].last + 1 == each.first:
            joined[-1] = joined[-1]._replace(last=each.last)
        else:
            joined.append(each)
    return joined


def _last(one: StateRange) -> int:
    return one.last
