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

from collections import OrderedDict

from kshare.offset_ranges import OffsetRange, add_range, ranges_within, remove_range
from kshare.state.lease import TopicIdPartition

LogIncarnation = tuple[TopicIdPartition, int]
"""A partition, and the leader epoch under which its records were written."""


class UnconfirmedAccepts:
    """Offset ranges by partition and leader epoch; at most `bound` of them."""

    def __init__(self, bound: int = 10_000) -> None:
        self.bound = bound
        self._ranges: OrderedDict[LogIncarnation, list[OffsetRange]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __len__(self) -> int:
        return sum(len(ranges) for ranges in self._ranges.values())

    def remember(self, partition: TopicIdPartition, leader_epoch: int, first: int, last: int) -> None:
        """The user accepted these, and the outcome is open."""
        key = (partition, leader_epoch)
        ranges = self._ranges.setdefault(key, [])
        self._ranges.move_to_end(key)
        add_range(ranges, first, last)
        while len(self) > self.bound:
            oldest, ranges = next(iter(self._ranges.items()))
            del ranges[: len(self) - self.bound]
            if not ranges:
                del self._ranges[oldest]

    def known(
        self, partition: TopicIdPartition, leader_epoch: int, first: int, last: int
    ) -> list[OffsetRange]:
        """Returns the parts of a redelivered range that were accepted before."""
        return ranges_within(self._ranges.get((partition, leader_epoch), ()), first, last)

    def confirm(self, partition: TopicIdPartition, first: int, last: int) -> None:
        """The broker has confirmed these: they won't be redelivered, under whatever epoch they were written."""
        for key in [key for key in self._ranges if key[0] == partition]:
            ranges = self._ranges[key]
            remove_range(ranges, first, last)
            if not ranges:
                del self._ranges[key]

    def forget_topic(self, topic_id: bytes) -> None:
        """The topic was deleted, or recreated under another id."""
        for key in [key for key in self._ranges if key[0][0] == topic_id]:
            del self._ranges[key]
