"""How many bytes are asked for: little more than comes, and soon enough when more would come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.state.fetch_size import MAX_FETCH_BYTES, MIN_FETCH_BYTES, FetchSize


def test_small_pieces_are_asked_for_as_such() -> None:
    fetch_size = FetchSize()
    for _ in range(100):
        fetch_size.on_answer([200_000, 0, 100_000])
        assert fetch_size.bytes_for(4) == MIN_FETCH_BYTES


def test_twice_as_much_as_came_and_for_each_partition_a_little_more_than_the_largest_piece() -> None:
    fetch_size = FetchSize()
    fetch_size.on_answer([MIN_FETCH_BYTES, MIN_FETCH_BYTES])
    assert fetch_size.bytes_for(2) == 4 * MIN_FETCH_BYTES
    assert fetch_size.bytes_for(8) == 8 * (MIN_FETCH_BYTES + MIN_FETCH_BYTES // 8)


@pytest.mark.parametrize("there", [MIN_FETCH_BYTES, 5 * MIN_FETCH_BYTES, MAX_FETCH_BYTES])
def test_a_partition_that_could_bring_more_brings_all_of_it_soon(there: int) -> None:
    fetch_size, answers = FetchSize(), 0
    while fetch_size.bytes_for(1) < min(MAX_FETCH_BYTES, 2 * there):
        fetch_size.on_answer([min(there, fetch_size.bytes_for(1))])
        answers += 1
    assert answers <= 6


@pytest.mark.parametrize("there", [MIN_FETCH_BYTES, 5 * MIN_FETCH_BYTES, MAX_FETCH_BYTES])
def test_one_of_four_that_has_something_gets_there_by_an_eighth_each_time(there: int) -> None:
    """It may have its equal part, whatever the others don't use."""
    fetch_size, answers, part = FetchSize(), 0, MIN_FETCH_BYTES // 4
    while part < min(MAX_FETCH_BYTES // 4, there):
        fetch_size.on_answer([min(there, part)])
        part = fetch_size.bytes_for(4) // 4
        answers += 1
        assert answers <= 40


@given(st.lists(st.lists(st.integers(0, 2 * MAX_FETCH_BYTES), max_size=5)), st.integers(0, 200))
def test_never_less_than_a_batch_and_never_more_than_fits(answers: list[list[int]], partitions: int) -> None:
    fetch_size = FetchSize()
    for pieces in answers:
        fetch_size.on_answer(pieces)
        assert MIN_FETCH_BYTES <= fetch_size.bytes_for(partitions) <= MAX_FETCH_BYTES


def test_what_was_large_once_is_forgotten() -> None:
    fetch_size = FetchSize()
    fetch_size.on_answer([10 * MIN_FETCH_BYTES])
    assert fetch_size.bytes_for(1) == 20 * MIN_FETCH_BYTES
    fetch_size.on_answer([])
    assert fetch_size.bytes_for(1) == 20 * MIN_FETCH_BYTES, "an answer without records says nothing"
    for _ in range(30):
        fetch_size.on_answer([1000])
    assert fetch_size.bytes_for(1) == MIN_FETCH_BYTES


@given(st.lists(st.integers(0, 2 * MAX_FETCH_BYTES)), st.integers(1, 200), st.integers(64 * 1024, 2**31 - 1))
def test_never_more_than_an_answer_may_have(answers: list[int], partitions: int, limit: int) -> None:
    fetch_size = FetchSize(limit)
    for size in answers:
        fetch_size.on_answer([size])
        assert fetch_size.bytes_for(partitions) <= 0.75 * limit
