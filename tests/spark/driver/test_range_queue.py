"""Ranges in line: taken in order, cut, removed from the middle, and put back."""

from __future__ import annotations

import pytest

from kshare.spark.driver.offset_sets import OffsetSet, PartitionRange
from kshare.spark.driver.range_queue import CountedRange, RangeQueue

ORDERS = (b"\1" * 16, 0)


def span(first: int, last: int) -> PartitionRange:
    return PartitionRange(ORDERS, first, last)


def queue(*spans: tuple[int, int]) -> RangeQueue:
    made = RangeQueue()
    for first, last in spans:
        made.add(span(first, last), first)
    return made


def taken(made: RangeQueue, limit: int) -> list[tuple[int, int, int]]:
    return [(range_.span.first, range_.span.last, range_.delivery_count) for range_ in made.take(limit)]


def test_the_oldest_are_taken_first_and_the_last_one_is_cut() -> None:
    made = queue((20, 29), (0, 9))
    assert taken(made, 13) == [(20, 29, 20), (0, 2, 0)]
    assert made.total == 7
    assert taken(made, 99) == [(3, 9, 0)]
    assert taken(made, 1) == []


def test_what_was_delivered_most_often_goes_first_if_the_order_is_free() -> None:
    made = RangeQueue()
    for first, count in ((0, 1), (10, 3), (20, 1), (30, 2), (40, 3)):
        made.add_by_deliveries(span(first, first + 9), count)
    assert taken(made, 25) == [(10, 19, 3), (40, 49, 3), (30, 34, 2)]
    made.add_by_deliveries(span(50, 59), 9)
    assert taken(made, 99) == [(50, 59, 9), (35, 39, 2), (0, 9, 1), (20, 29, 1)]
    assert not made.offsets


def test_a_range_that_was_cut_keeps_its_place() -> None:
    made = RangeQueue()
    for first, count in ((0, 2), (10, 2), (20, 1)):
        made.add_by_deliveries(span(first, first + 9), count)
    assert taken(made, 3) == [(0, 2, 2)]
    made.remove(span(5, 12))
    assert taken(made, 99) == [(3, 4, 2), (13, 19, 2), (20, 29, 1)]
    assert made.total == 0


def test_a_removed_range_leaves_what_is_around_it() -> None:
    made = queue((0, 9), (10, 19))
    made.remove(span(5, 12))
    made.remove(span(100, 200))
    assert taken(made, 99) == [(0, 4, 0), (13, 19, 10)]


def test_what_is_put_back_comes_first() -> None:
    made = queue((0, 9), (10, 19))
    first = [*made.take(15)]
    made.put_back(first)
    assert taken(made, 99) == [(0, 9, 0), (10, 14, 10), (15, 19, 10)]


def test_one_range_at_a_time() -> None:
    made = queue((0, 9))
    assert made.take_first() == CountedRange(span(0, 9), 0)
    assert made.take_first() is None
    assert not made.offsets


def test_what_is_acquired_again_after_it_was_removed_is_in_line_once() -> None:
    made = RangeQueue()
    made.add_by_deliveries(span(0, 9), 1)
    made.remove(span(3, 5))
    made.add_by_deliveries(span(4, 5), 2)
    made.remove(span(0, 0))
    assert made.total == 8
    assert taken(made, 99) == [(4, 5, 2), (1, 2, 1), (6, 9, 1)]
    assert made.total == 0


def test_a_lost_session_looks_at_each_range_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its ranges was removed by itself, and all others looked at: 70 seconds for 8,000."""
    made = RangeQueue()
    for first in range(0, 2000, 2):
        made.add_by_deliveries(span(first, first), 1 + first % 4)
    looked = 0
    outside = OffsetSet.outside

    def counted(offsets: OffsetSet, one: PartitionRange) -> list[PartitionRange]:
        nonlocal looked
        looked += 1
        return outside(offsets, one)

    monkeypatch.setattr(OffsetSet, "outside", counted)
    for first in range(0, 1998, 2):
        made.remove(span(first, first))
    assert taken(made, 9) == [(1998, 1998, 3)]
    assert looked <= 1000
