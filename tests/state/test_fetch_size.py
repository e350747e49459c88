"""The fetch size: little more than is returned, but growing quickly when more is available."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.state.fetch_size import MAX_FETCH_BYTES, MIN_FETCH_BYTES, FetchSize


def test_small_responses_keep_the_minimum_size() -> None:
    fetch_size = FetchSize()
    for _ in range(100):
        fetch_size.on_response([200_000, 0, 100_000])
        assert fetch_size.bytes_for(4) == MIN_FETCH_BYTES


def test_size_is_twice_the_response_and_a_little_more_than_the_largest_part_for_each_partition() -> None:
    fetch_size = FetchSize()
    fetch_size.on_response([MIN_FETCH_BYTES, MIN_FETCH_BYTES])
    assert fetch_size.bytes_for(2) == 4 * MIN_FETCH_BYTES
    assert fetch_size.bytes_for(8) == 8 * (MIN_FETCH_BYTES + MIN_FETCH_BYTES // 8)


@pytest.mark.parametrize("there", [MIN_FETCH_BYTES, 5 * MIN_FETCH_BYTES, MAX_FETCH_BYTES])
def test_size_reaches_what_one_partition_has_within_six_responses(there: int) -> None:
    fetch_size, responses = FetchSize(), 0
    while fetch_size.bytes_for(1) < min(MAX_FETCH_BYTES, 2 * there):
        fetch_size.on_response([min(there, fetch_size.bytes_for(1))])
        responses += 1
    assert responses <= 6


@pytest.mark.parametrize("there", [MIN_FETCH_BYTES, 5 * MIN_FETCH_BYTES, MAX_FETCH_BYTES])
def test_one_of_four_partitions_grows_by_an_eighth_each_time(there: int) -> None:
    """Each partition may use an equal share, even if the others don't use theirs."""
    fetch_size, responses, part = FetchSize(), 0, MIN_FETCH_BYTES // 4
    while part < min(MAX_FETCH_BYTES // 4, there):
        fetch_size.on_response([min(there, part)])
        part = fetch_size.bytes_for(4) // 4
        responses += 1
        assert responses <= 40


@given(st.lists(st.lists(st.integers(0, 2 * MAX_FETCH_BYTES), max_size=5)), st.integers(0, 200))
def test_size_stays_between_the_minimum_and_the_maximum(responses: list[list[int]], partitions: int) -> None:
    fetch_size = FetchSize()
    for pieces in responses:
        fetch_size.on_response(pieces)
        assert MIN_FETCH_BYTES <= fetch_size.bytes_for(partitions) <= MAX_FETCH_BYTES


def test_size_shrinks_after_small_responses() -> None:
    fetch_size = FetchSize()
    fetch_size.on_response([10 * MIN_FETCH_BYTES])
    assert fetch_size.bytes_for(1) == 20 * MIN_FETCH_BYTES
    fetch_size.on_response([])
    assert fetch_size.bytes_for(1) == 20 * MIN_FETCH_BYTES, "a response without records changes nothing"
    for _ in range(30):
        fetch_size.on_response([1000])
    assert fetch_size.bytes_for(1) == MIN_FETCH_BYTES


@given(st.lists(st.integers(0, 2 * MAX_FETCH_BYTES)), st.integers(1, 200), st.integers(64 * 1024, 2**31 - 1))
def test_size_stays_below_the_response_limit(responses: list[int], partitions: int, limit: int) -> None:
    fetch_size = FetchSize(limit)
    for size in responses:
        fetch_size.on_response([size])
        assert fetch_size.bytes_for(partitions) <= 0.75 * limit
