"""Sets of offsets, stored as ranges: the cost is per range, never per record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from kshare.offset_ranges import OffsetRange, add_range, ranges_within, remove_range, without
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
        self._spans: dict[TopicIdPartition, list[OffsetRange]] = {}

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
        add_range(self._spans.setdefault(span.partition, []), span.first, span.last)

    def remove(self, span: PartitionRange) -> None:
        spans = self._spans.get(span.partition)
        if spans is None:
            return
        remove_range(spans, span.first, span.last)
        if not spans:
            del self._spans[span.partition]

    def within(self, span: PartitionRange) -> list[PartitionRange]:
        """The offsets that are in both."""
        spans = ranges_within(self._spans.get(span.partition, ()), span.first, span.last)
        return [PartitionRange(span.partition, *part) for part in spans]

    def outside(self, span: PartitionRange) -> list[PartitionRange]:
        """The offsets of this range that aren't in the set."""
        whole = span.first, span.last
        spans = without([whole], ranges_within(self._spans.get(span.partition, ()), *whole))
        return [PartitionRange(span.partition, *part) for part in spans]

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


def span_of(range_: RecordRange) -> PartitionRange:
    return PartitionRange((UUID(range_.topic_id).bytes, range_.partition), range_.first, range_.last)


def spans_of(ranges: Iterable[RecordRange]) -> OffsetSet:
    spans = OffsetSet()
    for range_ in ranges:
        spans.add(span_of(range_))
    return spans
