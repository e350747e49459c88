"""Splitting ranges into tasks: each record is in exactly one task, and tasks are about equally large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.spark.ranges import RecordRange
from kshare.spark.splitting import TaskLimits, split

IDS = ("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002")


def one(partition: int, first: int, last: int, topic: int = 0) -> RecordRange:
    return RecordRange(f"t{topic}", IDS[topic], partition, first, last)


@pytest.mark.parametrize(
    ("limits", "records", "partitions", "cores", "tasks"),
    [
        (TaskLimits(), 12_000, 6, 2, 2),
        (TaskLimits(), 12_000, 1, 4, 4),
        (TaskLimits(min_records=5_000), 12_000, 6, 8, 2),
        (TaskLimits(min_records=5_000), 100, 6, 8, 1),
        (TaskLimits(6, min_records=5_000), 12_000, 6, 2, 6),
        (TaskLimits(max_tasks=3), 12_000, 6, 8, 3),
        (TaskLimits(6), 4, 2, 2, 4),
        (TaskLimits(), 0, 0, 2, 0),
        (TaskLimits(), 5_000_000, 6, 2, 6),  # in waves of two
        (TaskLimits(max_tasks=4), 5_000_000, 6, 2, 4),
        (TaskLimits(), 194_000, 48, None, 20),
        (TaskLimits(), 12_000, 6, None, 2),
        (TaskLimits(), 194_000, 4, None, 4),
        (TaskLimits(min_records=50_000), 194_000, 48, None, 4),
        (TaskLimits(), 3_000_000, 2, None, 3),
    ],
)
def test_task_limits(
    limits: TaskLimits, records: int, partitions: int, cores: int | None, tasks: int
) -> None:
    assert limits.tasks(records, partitions, cores) == tasks


def test_a_task_reads_whole_partitions_if_they_are_about_equal() -> None:
    ranges = [one(number, 0, 1_999 + 40 * number) for number in range(6)]
    assert split(reversed(ranges), TaskLimits(), 2) == [tuple(ranges[:3]), tuple(ranges[3:])]
    assert split(ranges, TaskLimits(6), 2) == [(each,) for each in ranges]
    assert split([], TaskLimits(5), 2) == []


def test_a_partition_is_cut_if_tasks_would_be_unequal() -> None:
    assert split([one(0, 0, 9), one(0, 20, 24)], TaskLimits(), 3) == [
        (one(0, 0, 4),),
        (one(0, 5, 9),),
        (one(0, 20, 24),),
    ]
    assert split([one(0, 0, 1)], TaskLimits(5), 1) == [(one(0, 0, 0),), (one(0, 1, 1),)]
    assert split([one(0, 0, 99), one(1, 0, 1, topic=1)], TaskLimits(), 2) == [
        (one(0, 0, 50),),
        (one(0, 51, 99), one(1, 0, 1, topic=1)),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40), st.integers(0, 5)), max_size=12),
    st.integers(1, 20),
)
def test_every_record_is_in_one_task(parts: list[tuple[int, int, int]], wanted: int) -> None:
    ranges, at = [], dict.fromkeys(range(3), 0)
    for partition, length, hole in parts:
        ranges.append(one(partition, at[partition] + hole, at[partition] + hole + length - 1))
        at[partition] += hole + length
    tasks = split(ranges, TaskLimits(), wanted)

    def offsets(given: list[RecordRange]) -> list[tuple[int, int]]:
        return [(each.partition, offset) for each in given for offset in range(each.first, each.last + 1)]

    assert offsets([each for task in tasks for each in task]) == sorted(offsets(ranges))
    records = len(offsets(ranges))
    assert len(tasks) == min(wanted, records)
    if tasks:
        sizes = [sum(map(len, task)) for task in tasks]
        average = records / len(tasks)
        assert min(sizes) >= max(1, int(0.7 * average) - 1)
        assert max(sizes) <= 1.3 * average + 1
