"""Leaves out of planned ranges what filters exclude, before anything is fetched.

Decides which offsets are left. `kshare.spark.pushdown` makes these filters of Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kshare.admin.results import TopicPartition
from kshare.spark.ranges import RecordRange

Span = tuple[int, int]
"""First and last offset."""
Cut = Callable[[RecordRange], Sequence[Span]]
"""The offsets of a range that pass a filter, ascending."""


@dataclass(frozen=True, slots=True)
class RangeFilters:
    """The filters of one DataFrame, all of which a record has to pass."""

    cuts: tuple[Cut, ...] = ()
    since_ms: int | None = None
    """Records before the first offset with this timestamp or a later one aren't needed."""

    def apply(self, ranges: Iterable[RecordRange]) -> list[RecordRange]:
        """The offsets of these ranges that pass all filters on topic, partition and offset."""
        left = list(ranges)
        for cut in self.cuts:
            left = [replace(one, first=first, last=last) for one in left for first, last in cut(one)]
        return left


def since(
    ranges: Iterable[RecordRange],
    starts: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int],
) -> Iterator[RecordRange]:
    """The ranges without what is too old: from the log's start to `starts`, or to the end where that is negative.

    What is before the log's start stays: it is gone, whatever its timestamp was, and reading it reports the loss.
    """
    for one in ranges:
        place = (one.topic, one.partition)
        start, log_start = starts[place], log_starts[place]
        if 0 <= start <= log_start:
            yield one
            continue
        if one.first < log_start:
            yield replace(one, last=min(one.last, log_start - 1))
        if 0 <= start <= one.last:
            yield replace(one, first=max(one.first, start))
