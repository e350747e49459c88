"""Ranges that wait in line, with the delivery counts of their records. No offset is in it twice.

Each crash of the driver costs what it holds a delivery, also what it never emitted. So what was delivered most often
goes first, where the order is ours to choose: it has the fewest deliveries left. Otherwise a partition that brokers
deliver in small pieces, because of its delivery counts, would fall behind the others until its records are archived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kshare.spark.driver.offset_sets import OffsetSet, PartitionRange


class CountedRange(NamedTuple):
    """A range whose records have the same delivery count."""

    span: PartitionRange
    delivery_count: int


class RangeQueue:
    def __init__(self) -> None:
        self._line: deque[CountedRange] = deque()
        self.offsets = OffsetSet()
        """The same, as a set."""

    @property
    def total(self) -> int:
        """The number of offsets."""
        return self.offsets.total

    def add(self, span: PartitionRange, delivery_count: int) -> None:
        """At the end of the line."""
        self._line.append(CountedRange(span, delivery_count))
        self.offsets.add(span)

    def add_by_deliveries(self, span: PartitionRange, delivery_count: int) -> None:
        """Behind those that were delivered as often, or more often."""
        at = len(self._line)
        while at and self._line[at - 1].delivery_count < delivery_count:
            at -= 1
        self._line.insert(at, CountedRange(span, delivery_count))
        self.offsets.add(span)

    def put_back(self, ranges: Iterable[CountedRange]) -> None:
        """Add these before all others. The first one will be the oldest."""
        for one in reversed([*ranges]):
            self._line.appendleft(one)
            self.offsets.add(one.span)

    def remove(self, span: PartitionRange) -> None:
        if not self.offsets.within(span):
            return
        self.offsets.remove(span)
        kept: deque[CountedRange] = deque()
        for one in self._line:
            kept.extend(CountedRange(part, one.delivery_count) for part in _without(one.span, span))
        self._line = kept

    def take_first(self) -> CountedRange | None:
        """Take the range at the head of the line."""
        if not self._line:
            return None
        one = self._line.popleft()
        self.offsets.remove(one.span)
        return one

    def take(self, limit: int) -> Iterator[CountedRange]:
        """Take at most so many offsets. The last range is cut if necessary."""
        while self._line and limit > 0:
            span, delivery_count = self._line.popleft()
            if span.size > limit:
                self._line.appendleft(CountedRange(span._replace(first=span.first + limit), delivery_count))
                span = span._replace(last=span.first + limit - 1)
            limit -= span.size
            self.offsets.remove(span)
            yield CountedRange(span, delivery_count)


def _without(span: PartitionRange, hole: PartitionRange) -> Iterator[PartitionRange]:
    if span.partition != hole.partition or hole.last < span.first or span.last < hole.first:
        yield span
        return
    if span.first < hole.first:
        yield PartitionRange(span.partition, span.first, hole.first - 1)
    if hole.last < span.last:
        yield PartitionRange(span.partition, hole.last + 1, span.last)
