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

from kshare.state.lease import Partition


class Span(NamedTuple):
    """Offsets, both ends inclusive."""

    first: int
    last: int


Place = tuple[Partition, int]
"""A partition, and the leader epoch under which its records were written."""


class AcceptedMemory:
    """Offset ranges by partition and leader epoch; at most `bound` of them."""

    def __init__(self, bound: int = 10_000) -> None:
        self.bound = bound
        self._spans: OrderedDict[Place, list[Span]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._spans)

    def __len__(self) -> int:
        return sum(len(spans) for spans in self._spans.values())

    def remember(self, partition: Partition, leader_epoch: int, first: int, last: int) -> None:
        """The user accepted these, and the outcome is open."""
        place = (partition, leader_epoch)
        spans = self._spans.setdefault(place, [])
        self._spans.move_to_end(place)
        low, high = _touching(spans, first - 1, last + 1)
        if low < high:
            first, last = min(first, spans[low].first), max(last, spans[high - 1].last)
        spans[low:high] = [Span(first, last)]
        self._forget_the_oldest()

    def known(self, partition: Partition, leader_epoch: int, first: int, last: int) -> list[Span]:
        """Returns the parts of a redelivered range that were accepted before."""
        spans = self._spans.get((partition, leader_epoch))
        if not spans:
            return []
        low, high = _touching(spans, first, last)
        return [Span(max(first, span.first), min(last, span.last)) for span in spans[low:high]]

    def confirm(self, partition: Partition, first: int, last: int) -> None:
        """The broker has confirmed these: they won't be redelivered, under whatever epoch they were written."""
        for place in [place for place in self._spans if place[0] == partition]:
            spans = self._spans[place]
            low, high = _touching(spans, first, last)
            rest = [Span(span.first, first - 1) for span in spans[low:high] if span.first < first]
            rest += [Span(last + 1, span.last) for span in spans[low:high] if span.last > last]
            spans[low:high] = rest
            if not spans:
                del self._spans[place]

    def forget_topic(self, topic_id: bytes) -> None:
        """The topic was deleted, or recreated under another id."""
        for place in [place for place in self._spans if place[0][0] == topic_id]:
            del self._spans[place]

    def _forget_the_oldest(self) -> None:
        while len(self) > self.bound:
            place, spans = next(iter(self._spans.items()))
            del spans[: len(self) - self.bound]
            if not spans:
                del self._spans[place]


def _touching(spans: list[Span], first: int, last: int) -> tuple[int, int]:
    """The slice of ascending, disjoint spans that overlap first..last."""
    low = bisect_left(spans, first, key=lambda span: span.last)
    high = low
    while high < len(spans) and spans[high].first <= last:
        high += 1
    return low, high
