"""Sets of offsets as ranges, compared with Python's sets of single offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.offset_ranges import (
    OffsetRange,
    add_range,
    join_adjacent,
    ranges_of,
    ranges_within,
    remove_range,
    without,
)

_offsets = st.sets(st.integers(0, 80), max_size=40)
_range = st.tuples(st.integers(0, 80), st.integers(0, 20)).map(lambda pair: (pair[0], sum(pair)))


def offsets_in(ranges: Iterable[OffsetRange]) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def assert_well_formed(ranges: Sequence[OffsetRange]) -> None:
    assert all(first <= last for first, last in ranges)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))


def assert_is(ranges: list[OffsetRange], offsets: set[int]) -> None:
    """In the only form of these offsets: neighbours are one range."""
    assert_well_formed(ranges)
    assert offsets_in(ranges) == offsets
    assert join_adjacent(ranges) == ranges


@given(_offsets)
def test_ranges_of_offsets(offsets: set[int]) -> None:
    assert_is(ranges_of(sorted(offsets)), offsets)


@given(st.lists(st.tuples(st.booleans(), _range), max_size=40))
def test_added_and_removed_ranges(steps: list[tuple[bool, OffsetRange]]) -> None:
    ranges: list[OffsetRange] = []
    model: set[int] = set()
    for is_added, (first, last) in steps:
        change = add_range if is_added else remove_range
        change(ranges, first, last)
        model = model | offsets_in([(first, last)]) if is_added else model - offsets_in([(first, last)])
        assert_is(ranges, model)


@given(_offsets, _range)
def test_ranges_within(offsets: set[int], part: OffsetRange) -> None:
    found = ranges_within(ranges_of(sorted(offsets)), *part)
    assert_is(found, offsets & offsets_in([part]))


@given(_offsets, _offsets)
def test_without(offsets: set[int], excluded: set[int]) -> None:
    left = without(ranges_of(sorted(offsets)), ranges_of(sorted(excluded)))
    assert_is(left, offsets - excluded)


@given(_offsets, st.lists(_range, max_size=10).map(sorted))
def test_what_is_excluded_may_overlap(offsets: set[int], excluded: list[OffsetRange]) -> None:
    assert_is(without(ranges_of(sorted(offsets)), excluded), offsets - offsets_in(excluded))


@given(st.lists(_range, max_size=10).map(sorted), _offsets)
def test_overlapping_ranges_keep_no_excluded_offset(ranges: list[OffsetRange], excluded: set[int]) -> None:
    left = without(ranges, ranges_of(sorted(excluded)))
    assert offsets_in(left) == offsets_in(ranges) - excluded


@pytest.mark.parametrize(
    ("ranges", "joined"),
    [
        ([], []),
        ([(0, 4), (5, 9), (11, 12)], [(0, 9), (11, 12)]),
        ([(5, 9), (0, 4)], [(5, 9), (0, 4)]),
        ([(0, 4), (3, 9)], [(0, 4), (3, 9)]),
    ],
)
def test_only_neighbours_in_order_are_joined(ranges: list[OffsetRange], joined: list[OffsetRange]) -> None:
    assert join_adjacent(ranges) == joined
