"""Sets of offsets, stored as ranges: the cost is per range, never per record."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from kshare.spark.ranges import RecordRange
from kshare.state.lease import TopicIdPartition


class PartitionRange(NamedTuple):
    """Offsets of one partition, both ends included."""

    partition: TopicIdPartition
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class OffsetSet:
    """Offsets by partition. Adjacent ranges are merged."""

    def __init__(self) -> None:
        self._spans: dict[TopicIdPartition, list[tuple[int, int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._spans)

    def __iter__(self) -> Iterator[PartitionRange]:
        """In the order of partitions and offsets."""
        for partition in sorted(self._spans):
            for first, last in self._spans[partition]:
                yield PartitionRange(partition, first, last)

    @property
    def total(self) -> int:
        """The number of offsets."""
        return sum(last - first + 1 for spans in self._spans.values() for first, last in spans)

    def add(self, span: PartitionRange) -> None:
        spans = self._spans.setdefault(span.partition, [])
        first, last = span.first, span.last
        low, high = _touching(spans, first - 1, last + 1)
        if low < high:
            first, last = min(first, spans[low][0]), max(last, spans[high - 1][1])
        spans[low:high] = [(first, last)]

    def remove(self, span: PartitionRange) -> None:
        spans = self._spans.get(span.partition)
        if not spans:
            return
        low, high = _touching(spans, span.first, span.last)
        remaining = [(first, span.first - 1) for first, _ in spans[low:high] if first < span.first]
        remaining += [(span.last + 1, last) for _, last in spans[low:high] if last > span.last]
        spans[low:high] = remaining
        if not spans:
            del self._spans[span.partition]

    def within(self, span: PartitionRange) -> list[PartitionRange]:
        """The offsets that are in both."""
        spans = self._spans.get(span.partition, [])
        low, high = _touching(spans, span.first, span.last)
        return [
            PartitionRange(span.partition, max(first, span.first), min(last, span.last))
            for first, last in spans[low:high]
        ]

    def outside(self, span: PartitionRange) -> list[PartitionRange]:
        """The offsets of this range that aren't in the set."""
        remaining = []
        at = span.first
        for contained in self.within(span):
            if at < contained.first:
                remaining.append(PartitionRange(span.partition, at, contained.first - 1))
            at = contained.last + 1
        if at <= span.last:
            remaining.append(PartitionRange(span.partition, at, span.last))
        return remaining

    def partitions(self) -> list[TopicIdPartition]:
        return list(self._spans)

    def forget(self, partition: TopicIdPartition) -> None:
        self._spans.pop(partition, None)

    def common(self, other: OffsetSet) -> OffsetSet:
        """The offsets that are in both."""
        found = OffsetSet()
        for span in other:
            for part in self.within(span):
                found.add(part)
        return found


def span_of(one: RecordRange) -> PartitionRange:
    return PartitionRange((UUID(one.topic_id).bytes, one.partition), one.first, one.last)


def spans_of(ranges: Iterable[RecordRange]) -> OffsetSet:
    spans = OffsetSet()
    for one in ranges:
        spans.add(span_of(one))
    return spans


def _touching(spans: list[tuple[int, int]], first: int, last: int) -> tuple[int, int]:
    """The slice of ascending, disjoint spans that overlap first..last."""
    low = bisect_left(spans, first, key=lambda span: span[1])
    high = low
    while high < len(spans) and spans[high][0] <= last:
        high += 1
    return low, high
