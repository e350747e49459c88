"""The way of records through the journal: waiting, being written, staged, taken."""

from __future__ import annotations

from kshare.spark.driver.offset_sets import PartitionRange
from kshare.spark.driver.range_queue import CountedRange
from kshare.spark.driver.staging import _FRAME, Staging
from kshare.spark.ranges import JournalPosition

ORDERS, REFUNDS = (b"\1" * 16, 0), (b"\1" * 16, 1)
START = JournalPosition("j", "topic journal", 100)


def one(first: int, last: int, where: tuple[bytes, int] = ORDERS) -> CountedRange:
    return CountedRange(PartitionRange(where, first, last), 1)


def test_a_frame_is_in_the_order_of_partitions_and_offsets() -> None:
    staging = Staging(START)
    for each in (one(5, 9), one(0, 3, REFUNDS), one(0, 2)):
        staging.waiting.add(*each)
    frame = staging.next_frame()
    assert frame == [one(0, 2), one(5, 9), one(0, 3, REFUNDS)]
    assert (staging.writing, staging.staged.total) == (12, 0)
    staging.appended(frame)
    assert (staging.writing, staging.staged.total) == (0, 12)
    assert staging.take(10) == [one(0, 2), one(5, 9), one(0, 1, REFUNDS)]
    assert staging.position.taken == 110


def test_a_frame_is_bounded() -> None:
    staging = Staging(START)
    for at in range(_FRAME + 1):
        staging.waiting.add(*one(2 * at, 2 * at))
    assert len(staging.next_frame()) == _FRAME
    assert len(staging.next_frame()) == 1
    assert staging.next_frame() == []


def test_a_plan_that_was_not_logged_is_put_back() -> None:
    staging = Staging(START, [one(0, 9)])
    staging.take(4)
    staging.put_back()
    assert staging.position == START
    assert staging.take(99) == [one(0, 3), one(4, 9)]


def test_what_is_known_is_not_new() -> None:
    staging = Staging(START, [one(0, 9)])
    staging.waiting.add(*one(10, 14))
    staging.next_frame()
    staging.waiting.add(*one(15, 19))
    assert staging.unknown(PartitionRange(ORDERS, 5, 22)) == [PartitionRange(ORDERS, 20, 22)]
