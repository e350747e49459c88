"""Splits ranges into tasks: as many as Spark's cores can run at once, each with about as many records.

A task costs Spark about 50 ms of CPU, however few records it reads, so there are fewer tasks than partitions if there
are few cores or few records. Every record is in exactly one task. The same ranges, options and cores always give the
same tasks, so that a replay is split like the first run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from kshare.spark.cores import spark_cores
from kshare.spark.ranges import RecordRange, by_partition

_LARGEST_TASK = 1_000_000
"""A view may be very large. Smaller tasks balance better, and less is repeated if one fails."""
_ROWS_UNKNOWN = 10_000
"""Records per task if the number of cores is unknown: about as many as take as long as a task costs."""
_TOLERANCE = 0.15
"""How much larger or smaller a task may be, as a fraction of the average, so that a partition isn't torn."""


@dataclass
class RangePartition(InputPartition):
    """The ranges that one task reads."""

    ranges: tuple[RecordRange, ...]
    is_committed_only: bool = False
    """Whether to skip aborted transactions. Of those, brokers acquire nothing for groups that are `read_committed`."""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """How many tasks there may be."""

    min_tasks: int | None = None
    max_tasks: int | None = None
    min_records: int = 1
    """Fewer tasks if they would have fewer records than this. `min_tasks` has precedence."""

    def tasks(self, records: int, partitions: int, cores: int | None) -> int:
        """The number of tasks for this many records; 0 if there are none."""
        if cores is None:
            wanted = min(partitions, -(-records // max(self.min_records, _ROWS_UNKNOWN)))
            cores = 1
        else:
            wanted = max(1, min(cores, records // self.min_records))
        if records > wanted * _LARGEST_TASK:
            wanted = -(-records // (_LARGEST_TASK * cores)) * cores
        wanted = max(wanted, self.min_tasks or 0)
        return min(wanted, self.max_tasks or wanted, records)


def frame_tasks(
    ranges: Iterable[RecordRange], limits: TaskLimits, *, is_committed_only: bool = False
) -> list[RangePartition]:
    """The tasks of a batch DataFrame. For an empty list, Spark would plan one task without a partition."""
    return [RangePartition(task, is_committed_only) for task in split(ranges, limits, spark_cores()) or [()]]


def split(
    ranges: Iterable[RecordRange], limits: TaskLimits, cores: int | None
) -> list[tuple[RecordRange, ...]]:
    """The ranges of each task, by partition and offset. No task is empty."""
    places = [tuple(partition_ranges) for partition_ranges in by_partition(ranges)]
    total = sum(map(_count, places))
    count = limits.tasks(total, len(places), cores)
    return list(_cut([range_ for place in places for range_ in place], _ends(places, total, count)))


def _ends(places: Sequence[Sequence[RecordRange]], total: int, count: int) -> list[int]:
    """How many records are in the first task, the first two, and so on: where a partition ends, if that is near."""
    borders = [0]
    for place in places:
        borders.append(borders[-1] + _count(place))
    ends: list[int] = []
    for number in range(1, count + 1):
        even = total * number // count
        nearest = min(borders, key=lambda border: abs(border - even))
        ends.append(nearest if abs(nearest - even) <= _TOLERANCE * total / count else even)
    return ends


def _cut(ranges: Sequence[RecordRange], ends: Iterable[int]) -> Iterator[tuple[RecordRange, ...]]:
    """Yield the records up to each end, and then those up to the next."""
    waiting = list(reversed(ranges))
    done = 0
    for end in ends:
        piece: list[RecordRange] = []
        while done < end:
            range_ = waiting.pop()
            if len(range_) > end - done:
                middle = range_.first + end - done
                waiting.append(replace(range_, first=middle))
                range_ = replace(range_, last=middle - 1)
            done += len(range_)
            piece.append(range_)
        yield tuple(piece)


def _count(ranges: Iterable[RecordRange]) -> int:
    return sum(map(len, ranges))
