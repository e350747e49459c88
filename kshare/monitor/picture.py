"""A share-partition as a picture: a bar of its offsets, counts of their states, and its offset ranges.

A sign of the bar stands for one offset, or for several if the bar is too short. Then it shows the one that is furthest
from being settled, because that one keeps the start offset where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from kshare.admin.results import Member, PartitionProgress
from kshare.monitor.snapshot import PartitionReading
from kshare.protocol.json_form import uuid_text
from kshare.state.share_records import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    SharePartitionState,
    StateRange,
    StoredState,
)
from kshare.wording import counted

_NAMES = {
    StoredState.AVAILABLE: "available",
    StoredState.ACKNOWLEDGED: "acknowledged",
    StoredState.ARCHIVED: "archived",
}


class Standing(IntEnum):
    """How far records are from being settled."""

    ACKNOWLEDGED = 0
    ARCHIVED = 1
    NOT_RELEASED = 2
    """Not delivered yet, or held: brokers don't store which."""
    RELEASED = 3

    @property
    def text(self) -> str:
        """The record state, as Kafka calls it."""
        return _TEXTS[self]


_TEXTS = {
    Standing.ACKNOWLEDGED: "acknowledged",
    Standing.ARCHIVED: "archived",
    Standing.NOT_RELEASED: "acquired or not delivered yet",
    Standing.RELEASED: "available again",
}


@dataclass(frozen=True, slots=True, order=True)
class Sign:
    """What one place of a bar shows."""

    standing: Standing
    deliveries: int
    """How often it was delivered, if it is released."""


@dataclass(frozen=True, slots=True)
class Bar:
    signs: tuple[Sign, ...]
    per_sign: int
    """How many offsets a sign stands for."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn of a share-partition."""

    where: SharePartitionKey
    topic: str | None
    """None if its name is unknown, or the topic was deleted."""
    state: SharePartitionState
    end: int | None
    """The end offset of the topic partition; None if there is no cluster to ask."""
    progress: PartitionProgress | None = None
    """From a cluster: how many records retention removed, and how full the in-flight window is."""
    members: tuple[Member, ...] = ()
    """The group's members. Only requested if the in-flight window is full."""

    @property
    def start(self) -> int:
        """The first offset of the bar: all before it are settled, or removed."""
        reported = self.progress.start_offset if self.progress else None
        return self.state.start_offset if reported is None else reported

    @property
    def last(self) -> int:
        """The last offset that is drawn."""
        stored = self.state.window_end - 1
        return stored if self.end is None else max(stored, self.end - 1)

    @property
    def is_undecided(self) -> bool:
        return self.state.start_offset == UNINITIALIZED_START_OFFSET

    @property
    def lag(self) -> int | None:
        if self.end is None or self.is_undecided:
            return self.progress.lag if self.progress else None
        return sum(
            range_.size for range_ in self.state.covering(self.start, self.end - 1) if not range_.is_settled
        )

    def ranges(self) -> Iterator[StateRange]:
        """All ranges from the start to the end."""
        return iter(()) if self.is_undecided else self.state.covering(self.start, self.last)

    @property
    def size(self) -> int:
        """How many offsets are drawn."""
        return 0 if self.is_undecided else max(0, self.last - self.start + 1)

    def bar(self, width: int) -> Bar | None:
        """At most `width` signs; None if there is nothing after the start."""
        return self.scaled_bar(-(-self.size // width)) if self.size else None

    def scaled_bar(self, per_sign: int) -> Bar | None:
        """A sign for so many offsets; None if there is nothing after the start."""
        if not self.size:
            return None
        signs = [Sign(Standing.ACKNOWLEDGED, 0)] * -(-self.size // per_sign)
        for range_ in self.ranges():
            sign = sign_of(range_)
            for at in range(
                (range_.first - self.start) // per_sign, (range_.last - self.start) // per_sign + 1
            ):
                signs[at] = max(signs[at], sign)
        return Bar(tuple(signs), per_sign)

    def counts(self) -> dict[Standing, int]:
        """How many records are in each state, in the order in which the states occur."""
        counts: Counter[Standing] = Counter()
        for range_ in self.ranges():
            counts[sign_of(range_).standing] += range_.size
        return dict(counts)


def partition_name(where: SharePartitionKey, topic: str | None) -> str:
    return f"{topic or uuid_text(where.topic_id)}[{where.partition}]"


def sign_of(one: StateRange) -> Sign:
    if one.state == StoredState.ACKNOWLEDGED:
        return Sign(Standing.ACKNOWLEDGED, 0)
    if one.state == StoredState.ARCHIVED:
        return Sign(Standing.ARCHIVED, 0)
    return Sign(Standing.RELEASED if one.deliveries else Standing.NOT_RELEASED, one.deliveries)


def state_name(number: int) -> str:
    """The name of a state, which may be newer than this code."""
    return _NAMES[StoredState(number)] if number in _NAMES else f"state {number}"


_SETTLED = "settled: before the start offset"


def record_standing(reading: PartitionReading, offset: int) -> str:
    """Where one record stands for the group, as far as brokers store it."""
    if reading.start is not None and offset < reading.start:
        return _SETTLED
    state = reading.state
    if state is None:
        return "unknown: the stored state can't be read" if reading.start is not None else "not delivered yet"
    if state.start_offset == UNINITIALIZED_START_OFFSET:
        return "not delivered yet: the group's start offset isn't decided"
    if offset < state.start_offset:
        return _SETTLED
    sign = sign_of(next(state.covering(offset, offset)))
    if sign.standing is Standing.RELEASED:
        return f"available after {counted(sign.deliveries, 'delivery').replace('deliverys', 'deliveries')}"
    return sign.standing.text
