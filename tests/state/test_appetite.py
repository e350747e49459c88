"""How many bytes are asked for: little more than comes, and soon enough when more would come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.state.appetite import LEAST, MOST, Appetite


def test_small_pieces_are_asked_for_as_such() -> None:
    appetite = Appetite()
    for _ in range(100):
        appetite.on_answer([200_000, 0, 100_000])
        assert appetite.bytes_for(4) == LEAST


def test_twice_as_much_as_came_and_for_each_partition_a_little_more_than_the_largest_piece() -> None:
    appetite = Appetite()
    appetite.on_answer([LEAST, LEAST])
    assert appetite.bytes_for(2) == 4 * LEAST
    assert appetite.bytes_for(8) == 8 * (LEAST + LEAST // 8)


@pytest.mark.parametrize("there", [LEAST, 5 * LEAST, MOST])
def test_a_partition_that_could_bring_more_brings_all_of_it_soon(there: int) -> None:
    appetite, answers = Appetite(), 0
    while appetite.bytes_for(1) < min(MOST, 2 * there):
        appetite.on_answer([min(there, appetite.bytes_for(1))])
        answers += 1
    assert answers <= 6


@pytest.mark.parametrize("there", [LEAST, 5 * LEAST, MOST])
def test_one_of_four_that_has_something_gets_there_by_an_eighth_each_time(there: int) -> None:
    """It may have its equal part, whatever the others don't use."""
    appetite, answers, part = Appetite(), 0, LEAST // 4
    while part < min(MOST // 4, there):
        appetite.on_answer([min(there, part)])
        part = appetite.bytes_for(4) // 4
        answers += 1
        assert answers <= 40


@given(st.lists(st.lists(st.integers(0, 2 * MOST), max_size=5)), st.integers(0, 200))
def test_never_less_than_a_batch_and_never_more_than_fits(answers: list[list[int]], partitions: int) -> None:
    appetite = Appetite()
    for pieces in answers:
        appetite.on_answer(pieces)
        assert LEAST <= appetite.bytes_for(partitions) <= MOST


def test_what_was_large_once_is_forgotten() -> None:
    appetite = Appetite()
    appetite.on_answer([10 * LEAST])
    assert appetite.bytes_for(1) == 20 * LEAST
    appetite.on_answer([])
    assert appetite.bytes_for(1) == 20 * LEAST, "an answer without records says nothing"
    for _ in range(30):
        appetite.on_answer([1000])
    assert appetite.bytes_for(1) == LEAST


@given(st.lists(st.integers(0, 2 * MOST)), st.integers(1, 200), st.integers(64 * 1024, 2**31 - 1))
def test_never_more_than_an_answer_may_have(answers: list[int], partitions: int, limit: int) -> None:
    appetite = Appetite(limit)
    for size in answers:
        appetite.on_answer([size])
        assert appetite.bytes_for(partitions) <= 0.75 * limit
