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
        self._lines: dict[int, deque[CountedRange]] = {}
        """By urgency; none is empty. The most urgent one is taken first, and in it the oldest range."""
        self.offsets = OffsetSet()
        """The same, as a set."""
        self._removed = OffsetSet()
        """What is in `_lines` still, and not in `offsets`."""

    @property
    def total(self) -> int:
        """The number of offsets."""
        return self.offsets.total

    def add(self, span: PartitionRange, delivery_count: int) -> None:
        """In order: behind all others that were added in this way."""
        self._drop_removed()
        self._line(0).append(CountedRange(span, delivery_count))
        self.offsets.add(span)

    def add_by_deliveries(self, span: PartitionRange, delivery_count: int) -> None:
        """Behind those that were delivered as often, or more often."""
        self._drop_removed()
        self._line(delivery_count).append(CountedRange(span, delivery_count))
        self.offsets.add(span)

    def put_back(self, ranges: Iterable[CountedRange]) -> None:
        """Before all others that were added in order. The first one will be the oldest."""
        self._drop_removed()
        for range_ in reversed([*ranges]):
            self._line(0).appendleft(range_)
            self.offsets.add(range_.span)

    def remove(self, span: PartitionRange) -> None:
        if self.offsets.within(span):
            self.offsets.remove(span)
            self._removed.add(span)

    def _drop_removed(self) -> None:
        """Before the lines are used again: a lost session removes thousands of ranges at once."""
        if not self._removed.total:
            return
        removed, self._removed = self._removed, OffsetSet()
        lines, self._lines = self._lines, {}
        for urgency, line in lines.items():
            for counted in line:
                for part in removed.outside(counted.span):
                    self._line(urgency).append(CountedRange(part, counted.delivery_count))

    def take_first(self) -> CountedRange | None:
        """Take the first range, whatever its size."""
        self._drop_removed()
        if not self._lines:
            return None
        urgency = max(self._lines)
        line = self._lines[urgency]
        first = line.popleft()
        if not line:
            del self._lines[urgency]
        self.offsets.remove(first.span)
        return first

    def take(self, limit: int) -> Iterator[CountedRange]:
        """Take at most so many offsets. The last range is cut if necessary."""
        self._drop_removed()
        while limit > 0 and self._lines:
            urgency = max(self._lines)
            first = self.take_first()
            assert first is not None, "no line is empty"
            span = first.span
            if span.size > limit:
                rest = span._replace(first=span.first + limit)
                self._line(urgency).appendleft(CountedRange(rest, first.delivery_count))
                self.offsets.add(rest)
                span = span._replace(last=rest.first - 1)
            limit -= span.size
            yield CountedRange(span, first.delivery_count)

    def _line(self, urgency: int) -> deque[CountedRange]:
        return self._lines.setdefault(urgency, deque())
