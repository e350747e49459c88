"""Sets of offsets as ranges: ascending, without overlaps, both ends included. The cost is per range, never per offset.

They are plain lists of pairs, which these functions combine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import itemgetter

OffsetRange = tuple[int, int]
"""First and last offset."""


def add_range(ranges: list[OffsetRange], first: int, last: int) -> None:
    """Ranges that it overlaps, or that are next to it, become one with it."""
    low, high = _overlapping(ranges, first - 1, last + 1)
    if low < high:
        first, last = min(first, ranges[low][0]), max(last, ranges[high - 1][1])
    ranges[low:high] = [(first, last)]


def remove_range(ranges: list[OffsetRange], first: int, last: int) -> None:
    low, high = _overlapping(ranges, first, last)
    remaining = [(start, first - 1) for start, _ in ranges[low:high] if start < first]
    remaining += [(last + 1, end) for _, end in ranges[low:high] if end > last]
    ranges[low:high] = remaining


def ranges_within(ranges: Sequence[OffsetRange], first: int, last: int) -> list[OffsetRange]:
    """What is in `ranges` of these offsets."""
    low, high = _overlapping(ranges, first, last)
    return [(max(start, first), min(end, last)) for start, end in ranges[low:high]]


def without(ranges: Sequence[OffsetRange], excluded: Sequence[OffsetRange]) -> list[OffsetRange]:
    """`ranges` without `excluded`, both sorted. Overlaps within either do no harm."""
    remaining: list[OffsetRange] = []
    start = 0
    for first, last in ranges:
        while start < len(excluded) and excluded[start][1] < first:
            start += 1
        at = start
        while at < len(excluded) and excluded[at][0] <= last:
            if first < excluded[at][0]:
                remaining.append((first, excluded[at][0] - 1))
            first = max(first, excluded[at][1] + 1)
            at += 1
        if first <= last:
            remaining.append((first, last))
    return remaining


def join_adjacent(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Each range that begins where the one before it ends becomes one with it. Everything else stays as it is."""
    joined: list[OffsetRange] = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def ranges_of(offsets: Iterable[int]) -> list[OffsetRange]:
    """These offsets, which ascend."""
    return join_adjacent((offset, offset) for offset in offsets)


def _overlapping(ranges: Sequence[OffsetRange], first: int, last: int) -> tuple[int, int]:
    """Where the ranges that overlap first..last begin and stop in the list."""
    low = bisect_left(ranges, first, key=itemgetter(1))
    high = low
    while high < len(ranges) and ranges[high][0] <= last:
        high += 1
    return low, high
