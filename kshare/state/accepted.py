"""What the user has accepted though nobody has confirmed it: so that it needn't reach the user again.

A lost connection releases every lock of its session at once, the acceptances that were under way included. Most of
what comes back then has been worked on already. It is accepted again, silently.

    event                                   | remembered
    ----------------------------------------+-----------------------------------------------------
    accepted, outcome open (no answer came) | yes
    comes back to this consumer             | stays: the second acceptance may be lost as well
    confirmed                               | no
    more ranges than the bound              | the oldest are forgotten: the user sees them again

A record is the same only if its offset and the leader epoch of its batch are: after an unclean election another
record may stand at the offset. Decides which offsets are known; never what is sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from typing import NamedTuple

from kshare.state.lease import Partition


class Span(NamedTuple):
    """Offsets, both ends included."""

    first: int
    last: int


Place = tuple[Partition, int]
"""A partition, and the leader epoch under which its records were written."""


class AcceptedMemory:
    """Ranges by partition and leader epoch; at most `bound` of them."""

    def __init__(self, bound: int = 10_000) -> None:
        self.bound = bound
        self._spans: OrderedDict[Place, list[Span]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._spans)

    def __len__(self) -> int:
        return sum(len(spans) for spans in self._spans.values())

    def remember(self, partition: Partition, leader_epoch: int, first: int, last: int) -> None:
        """Accepted by the user, and the outcome is open."""
        place = (partition, leader_epoch)
        spans = self._spans.setdefault(place, [])
        self._spans.move_to_end(place)
        low, high = _touching(spans, first - 1, last + 1)
        if low < high:
            first, last = min(first, spans[low].first), max(last, spans[high - 1].last)
        spans[low:high] = [Span(first, last)]
        self._forget_the_oldest()

    def known(self, partition: Partition, leader_epoch: int, first: int, last: int) -> list[Span]:
        """The parts of what came back that were accepted before."""
        spans = self._spans.get((partition, leader_epoch))
        if not spans:
            return []
        low, high = _touching(spans, first, last)
        return [Span(max(first, span.first), min(last, span.last)) for span in spans[low:high]]

    def confirm(self, partition: Partition, first: int, last: int) -> None:
        """The broker has it: whatever epoch it was written under, it won't come back."""
        for place in [place for place in self._spans if place[0] == partition]:
            spans = self._spans[place]
            low, high = _touching(spans, first, last)
            rest = [Span(span.first, first - 1) for span in spans[low:high] if span.first < first]
            rest += [Span(last + 1, span.last) for span in spans[low:high] if span.last > last]
            spans[low:high] = rest
            if not spans:
                del self._spans[place]

    def forget_topic(self, topic_id: bytes) -> None:
        """Deleted, or created anew under another id."""
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
