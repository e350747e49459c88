"""Offsets that the user accepted but no broker confirmed, so that they aren't handed out twice.

A lost connection releases every lock of its session at once, including records whose acceptance was in flight. Most of
what is redelivered then has been processed already, so it is accepted again without reaching the user.

    event                                      | remembered
    -------------------------------------------+-----------------------------------------------------
    accepted, outcome open (no response came)  | yes
    redelivered to this consumer               | still: the second acceptance may be lost as well
    confirmed                                  | no
    more ranges than the bound                 | the oldest are forgotten: the user sees them again

A record is the same only if both its offset and the leader epoch of its batch match: after an unclean leader election
the offset may hold a different record. Decides which offsets are known, never what is sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from typing import NamedTuple

from kshare.state.lease import TopicIdPartition


class AcceptedRange(NamedTuple):
    """Offsets, both ends inclusive."""

    first: int
    last: int


LogIncarnation = tuple[TopicIdPartition, int]
"""A partition, and the leader epoch under which its records were written."""


class UnconfirmedAccepts:
    """Offset ranges by partition and leader epoch; at most `bound` of them."""

    def __init__(self, bound: int = 10_000) -> None:
        self.bound = bound
        self._ranges: OrderedDict[LogIncarnation, list[AcceptedRange]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __len__(self) -> int:
        return sum(len(ranges) for ranges in self._ranges.values())

    def remember(self, partition: TopicIdPartition, leader_epoch: int, first: int, last: int) -> None:
        """The user accepted these, and the outcome is open."""
        key = (partition, leader_epoch)
        ranges = self._ranges.setdefault(key, [])
        self._ranges.move_to_end(key)
        low, high = _touching(ranges, first - 1, last + 1)
        if low < high:
            first, last = min(first, ranges[low].first), max(last, ranges[high - 1].last)
        ranges[low:high] = [AcceptedRange(first, last)]
        self._forget_the_oldest()

    def known(
        self, partition: TopicIdPartition, leader_epoch: int, first: int, last: int
    ) -> list[AcceptedRange]:
        """Returns the parts of a redelivered range that were accepted before."""
        ranges = self._ranges.get((partition, leader_epoch))
        if not ranges:
            return []
        low, high = _touching(ranges, first, last)
        return [AcceptedRange(max(first, each.first), min(last, each.last)) for each in ranges[low:high]]

    def confirm(self, partition: TopicIdPartition, first: int, last: int) -> None:
        """The broker has confirmed these: they won't be redelivered, under whatever epoch they were written."""
        for key in [key for key in self._ranges if key[0] == partition]:
            ranges = self._ranges[key]
            low, high = _touching(ranges, first, last)
            remaining = [
                AcceptedRange(each.first, first - 1) for each in ranges[low:high] if each.first < first
            ]
            remaining += [AcceptedRange(last + 1, each.last) for each in ranges[low:high] if each.last > last]
            ranges[low:high] = remaining
            if not ranges:
                del self._ranges[key]

    def forget_topic(self, topic_id: bytes) -> None:
        """The topic was deleted, or recreated under another id."""
        for key in [key for key in self._ranges if key[0][0] == topic_id]:
            del self._ranges[key]

    def _forget_the_oldest(self) -> None:
        while len(self) > self.bound:
            key, ranges = next(iter(self._ranges.items()))
            del ranges[: len(self) - self.bound]
            if not ranges:
                del self._ranges[key]


def _touching(ranges: list[AcceptedRange], first: int, last: int) -> tuple[int, int]:
    """The slice of ascending, disjoint spans that overlap first..last."""
    low = bisect_left(ranges, first, key=lambda each: each.last)
    high = low
    while high < len(ranges) and ranges[high].first <= last:
        high += 1
    return low, high
