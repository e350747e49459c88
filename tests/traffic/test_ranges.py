"""Ranges of offsets, compared with a dictionary of offsets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kshare.traffic.ranges import Ranges

SPANS = st.tuples(st.integers(0, 40), st.integers(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(st.tuples(st.sampled_from("abcx"), SPANS)), SPANS)
def test_ranges_equal_a_dictionary(steps: list[tuple[str, tuple[int, int]]], asked: tuple[int, int]) -> None:
    ranges: Ranges[str] = Ranges()
    plain: dict[int, str] = {}
    for value, (first, last) in steps:
        if value == "x":
            ranges.take(first, last)
        else:
            ranges.put(first, last, value)
        for offset in range(first, last + 1):
            plain.pop(offset, None)
            if value != "x":
                plain[offset] = value
    assert {
        offset: range_.value for range_ in ranges for offset in range(range_.first, range_.last + 1)
    } == plain
    pieces = list(ranges)
    assert all(before.last < other.first for before, other in pairwise(pieces))
    looked = ranges.overlapping(*asked)
    assert [offset for piece in looked for offset in range(piece.first, piece.last + 1)] == list(
        range(asked[0], asked[1] + 1)
    )
    assert all(
        plain.get(offset) == piece.value for piece in looked for offset in range(piece.first, piece.last + 1)
    )


def test_equal_neighbours_are_merged_and_the_lowest_forgotten_first() -> None:
    ranges: Ranges[str] = Ranges(max_pieces=2)
    ranges.put(0, 4, "a")
    ranges.put(5, 9, "a")
    assert [(range_.first, range_.last) for range_ in ranges] == [(0, 9)]
    ranges.put(20, 29, "a")
    ranges.put(40, 49, "a")
    assert [range_.first for range_ in ranges] == [20, 40]
