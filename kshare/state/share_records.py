"""The current state of each share-partition, from the snapshots and updates in `__share_group_state`.

The topic holds a record for every change that the share coordinator persists. The key says which share-partition and
which kind of record it is:

    record                              | state afterwards
    ------------------------------------+----------------------------------------------------------------------
    snapshot                            | that of the snapshot
    update on the known snapshot        | as before, with its ranges merged in, cut off at its start offset
    update on another snapshot          | as before: that snapshot was superseded, or never read
    tombstone                           | none
    another kind, or not decodable      | as before

Where two records cover the same offset, the higher delivery count wins, and then the higher state: updates may be
written in another order than the deliveries that they describe.

Decides what a record means, never where it comes from. Has no locks: acquired records are never stored.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple

from kshare.errors import DecodeError
from kshare.protocol.message import Message
from kshare.protocol.messages import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue

TOPIC = "__share_group_state"
UNINITIALIZED_START_OFFSET = -1
"""As a start offset: the group's start in this partition isn't initialized yet."""

_last = attrgetter("last")
_VERSION = struct.Struct(">h")
_KEYS: dict[int, type[ShareSnapshotKey] | type[ShareUpdateKey]] = {0: ShareSnapshotKey, 1: ShareUpdateKey}


class StoredState(IntEnum):
    """States of records as they are stored."""

    AVAILABLE = 0
    ACKNOWLEDGED = 2
    ARCHIVED = 4


FINAL_STATES = frozenset({StoredState.ACKNOWLEDGED, StoredState.ARCHIVED})
"""These records are never delivered again."""


class SharePartitionKey(NamedTuple):
    """Identifies a share-partition."""

    group: str
    topic_id: bytes
    partition: int


class StateRange(NamedTuple):
    """Offsets in one state, both ends included."""

    first: int
    last: int
    state: int
    """A StoredState, or the number of a state that this version doesn't know."""
    deliveries: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_settled(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def weight(self) -> tuple[int, int]:
        return self.deliveries, self.state


@dataclass(frozen=True, slots=True)
class SharePartitionState:
    """The stored state of one share-partition. Offsets in no range are available and were never delivered."""

    start_offset: int
    """Everything before it is settled; may be UNINITIALIZED_START_OFFSET."""
    ranges: tuple[StateRange, ...]
    """Ascending, without overlaps; equal neighbours are merged."""
    state_epoch: int
    """Counts how often the group's offsets were reset."""
    leader_epoch: int
    snapshot_epoch: int
    complete_count: int
    """Settled records after the start offset; -1 if the broker doesn't store that (before Kafka 4.2)."""
    updates: int = 0
    """Updates since the snapshot."""

    def covering(self, first: int, last: int) -> Iterator[StateRange]:
        """All of first..last in order: the stored ranges, and those between them that were never delivered."""
        at = max(first, self.start_offset, 0)
        for each in self.ranges[bisect_left(self.ranges, at, key=_last) :]:
            if each.first > last:
                break
            if each.first > at:
                yield StateRange(at, each.first - 1, StoredState.AVAILABLE, 0)
            cut = each._replace(first=max(each.first, at), last=min(each.last, last))
            yield cut
            at = cut.last + 1
        if at <= last:
            yield StateRange(at, last, StoredState.AVAILABLE, 0)

    def open_ranges(self, end: int) -> Iterator[StateRange]:
        """The unsettled ranges from the start offset up to, not including, `end`."""
        return (each for each in self.covering(self.start_offset, end - 1) if not each.is_settled)

    def first_open(self, offset: int = 0) -> int:
        """The first unsettled offset from `offset` on: brokers store a new start only with the next change."""
        at = max(offset, self.start_offset, 0)
        for each in self.ranges[bisect_left(self.ranges, at, key=_last) :]:
            if each.first > at or not each.is_settled:
                break
            at = each.last + 1
        return at

    @property
    def window_end(self) -> int:
        """One after the last offset with a stored state, which was delivered at least once."""
        return self.ranges[-1].last + 1 if self.ranges else self.start_offset


@dataclass(frozen=True, slots=True)
class AppliedRecord:
    """One record, with the states before and after it."""

    where: SharePartitionKey
    message: ShareSnapshotValue | ShareUpdateValue | None
    """None: a tombstone."""
    before: SharePartitionState | None
    after: SharePartitionState | None

    @property
    def is_applied(self) -> bool:
        """False for an update on another snapshot."""
        return not isinstance(self.message, ShareUpdateValue) or self.after is not self.before


class ShareStates:
    """Builds the states from the records of one partition of the topic, passed in order."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, SharePartitionState] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> AppliedRecord | None:
        """Applies a record; None if it isn't one of a known kind."""
        key_parts, kind = _read_key(key)
        if key_parts is None:
            return None
        previous = self.states.get(key_parts)
        message = _read_value(kind, value)
        if isinstance(message, ShareSnapshotValue):
            self.states[key_parts] = _from_snapshot(message)
        elif isinstance(message, ShareUpdateValue):
            if previous is not None and previous.snapshot_epoch == message.snapshot_epoch:
                self.states[key_parts] = _updated(previous, message)
        elif value is None and kind is ShareSnapshotKey:
            self.states.pop(key_parts, None)
        else:
            return None
        return AppliedRecord(key_parts, message, previous, self.states.get(key_parts))


def _read_key(key: bytes | None) -> tuple[SharePartitionKey | None, type[Message] | None]:
    if key is None or len(key) < _VERSION.size:
        return None, None
    kind = _KEYS.get(_VERSION.unpack_from(key)[0])
    if kind is None:
        return None, None
    try:
        read = kind.decode(key[_VERSION.size :], 0)
    except DecodeError:
        return None, None
    return SharePartitionKey(read.group_id, read.topic_id, read.partition), kind


def _read_value(
    kind: type[Message] | None, value: bytes | None
) -> ShareSnapshotValue | ShareUpdateValue | None:
    """None if there is none, if it can't be decoded, and for unknown versions."""
    if value is None or len(value) < _VERSION.size or _VERSION.unpack_from(value)[0] != 0:
        return None
    try:
        if kind is ShareSnapshotKey:
            return ShareSnapshotValue.decode(value[_VERSION.size :], 0)
        return ShareUpdateValue.decode(value[_VERSION.size :], 0)
    except DecodeError:
        return None


def _from_snapshot(value: ShareSnapshotValue) -> SharePartitionState:
    return SharePartitionState(
        value.start_offset,
        merged((), ranges_in(value), value.start_offset),
        value.state_epoch,
        value.leader_epoch,
        value.snapshot_epoch,
        value.delivery_complete_count,
    )


def _updated(state: SharePartitionState, value: ShareUpdateValue) -> SharePartitionState:
    start = state.start_offset if value.start_offset == UNINITIALIZED_START_OFFSET else value.start_offset
    return replace(
        state,
        start_offset=start,
        ranges=merged(state.ranges, ranges_in(value), start),
        leader_epoch=value.leader_epoch,
        complete_count=value.delivery_complete_count,
        updates=state.updates + 1,
    )


def ranges_in(value: ShareSnapshotValue | ShareUpdateValue) -> list[StateRange]:
    """The ranges in the record."""
    return [
        StateRange(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in value.state_batches
    ]


def merged(current: Sequence[StateRange], stored: Iterable[StateRange], start: int) -> tuple[StateRange, ...]:
    """`current` with `stored` merged in, without anything before `start`."""
    ranges = list(current)
    for range_ in stored:
        if range_.first <= range_.last:
            _merge_range(ranges, range_)
    count = bisect_left(ranges, start, key=_last)
    del ranges[:count]
    if ranges and ranges[0].first < start:
        ranges[0] = ranges[0]._replace(first=start)
    return tuple(ranges)


def _merge_range(ranges: list[StateRange], new: StateRange) -> None:
    """Touches only the ranges around `new`: there may be thousands of ranges and thousands of updates."""
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
    ranges[low:high] = join_equal(each for each in pieces if each.first <= each.last)


def join_equal(pieces: Iterable[StateRange]) -> list[StateRange]:
    """Neighbours with equal states and delivery counts become one."""
    joined: list[StateRange] = []
    for each in pieces:
        if joined and joined[-1].weight == each.weight and joined[-1].last + 1 == each.first:
            joined[-1] = joined[-1]._replace(last=each.last)
        else:
            joined.append(each)
    return joined
