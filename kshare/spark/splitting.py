"""Splits ranges into tasks: one per partition, or more if more are requested.

Every record is in exactly one task, and the same ranges always give the same tasks, so that a replay is split like the
first run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from kshare.spark.ranges import RecordRange, by_partition


@dataclass
class RangePartition(InputPartition):
    """The ranges that one task reads."""

    ranges: tuple[RecordRange, ...]


def split(ranges: Iterable[RecordRange], min_partitions: int | None = None) -> list[tuple[RecordRange, ...]]:
    """Tasks of about equal size, each with ranges of one partition. None is empty."""
    places = [tuple(partition_ranges) for partition_ranges in by_partition(ranges)]
    wanted = min_partitions or 0
    if wanted <= len(places):
        return places
    total = sum(map(_count, places))
    tasks: list[tuple[RecordRange, ...]] = []
    for place in places:
        tasks += _cut(place, max(1, round(wanted * _count(place) / total)))
    return tasks


def _cut(place: Sequence[RecordRange], pieces: int) -> list[tuple[RecordRange, ...]]:
    """Cut a partition's ranges into this many pieces, or one per record if there are fewer records."""
    remaining = _count(place)
    pieces = min(pieces, remaining)
    tasks: list[tuple[RecordRange, ...]] = []
    waiting = list(reversed(place))
    for number in range(pieces, 0, -1):
        quota = -(-remaining // number)
        remaining -= quota
        piece: list[RecordRange] = []
        while quota:
            one = waiting.pop()
            if len(one) > quota:
                waiting.append(replace(one, first=one.first + quota))
                one = replace(one, last=one.first + quota - 1)
            quota -= len(one)
            piece.append(one)
        tasks.append(tuple(piece))
    return tasks


def _count(ranges: Iterable[RecordRange]) -> int:
    return sum(map(len, ranges))
