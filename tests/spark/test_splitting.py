"""Splitting ranges into tasks: each record is in exactly one task, and tasks are about equally large."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kshare.spark.ranges import RecordRange
from kshare.spark.splitting import split

IDS = ("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002")


def one(partition: int, first: int, last: int, topic: int = 0) -> RecordRange:
    return RecordRange(f"t{topic}", IDS[topic], partition, first, last)


def test_one_task_per_partition() -> None:
    ranges = [one(1, 0, 9), one(0, 0, 9), one(0, 20, 29), one(0, 0, 9, topic=1)]
    assert split(ranges) == [(one(0, 0, 9), one(0, 20, 29)), (one(1, 0, 9),), (one(0, 0, 9, topic=1),)]
    assert split(ranges, 3) == split(ranges)
    assert split([], 5) == []


def test_more_tasks_on_request() -> None:
    assert split([one(0, 0, 9), one(0, 20, 24)], 3) == [
        (one(0, 0, 4),),
        (one(0, 5, 9),),
        (one(0, 20, 24),),
    ]
    assert split([one(0, 0, 1)], 5) == [(one(0, 0, 0),), (one(0, 1, 1),)]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40), st.integers(0, 5)), max_size=12),
    st.integers(1, 20),
)
def test_every_record_is_in_one_task(parts: list[tuple[int, int, int]], wanted: int) -> None:
    ranges, at = [], dict.fromkeys(range(3), 0)
    for partition, length, hole in parts:
        ranges.append(one(partition, at[partition] + hole, at[partition] + hole + length - 1))
        at[partition] += hole + length
    tasks = split(ranges, wanted)
    assert all(tasks)
    assert all(len({each.partition for each in task}) == 1 for task in tasks)

    def offsets(given: list[RecordRange]) -> list[tuple[int, int]]:
        return [(each.partition, offset) for each in given for offset in range(each.first, each.last + 1)]

    assert sorted(offsets([each for task in tasks for each in task])) == sorted(offsets(ranges))
    records = len(offsets(ranges))
    if wanted > len({each.partition for each in ranges}) and records:
        assert max(sum(map(len, task)) for task in tasks) <= -(-records // wanted) * 2
