"""Offset ranges that don't overlap, each with a value. Adjacent ranges with equal values are merged."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

ValueT = TypeVar("ValueT")


class ValueRange(NamedTuple, Generic[ValueT]):
    first: int
    last: int
    value: ValueT

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Ranges(Generic[ValueT]):
    """`most`: how many ranges to keep at most; the lowest are dropped first."""

    def __init__(self, max_pieces: int | None = None) -> None:
        self._max_pieces = max_pieces
        self._firsts: list[int] = []
        self._pieces: list[ValueRange[ValueT]] = []

    def __iter__(self) -> Iterator[ValueRange[ValueT]]:
        return iter(self._pieces)

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def put(self, first: int, last: int, value: ValueT) -> None:
        """Sets the value of a range, replacing earlier values."""
        if not self._pieces or self._pieces[-1].last < first:  # the usual case: records come in order
            at = len(self._pieces)
        else:
            self.take(first, last)
            at = bisect_left(self._firsts, first)
        start, end = at, at
        if at and self._pieces[at - 1].last == first - 1 and self._pieces[at - 1].value is value:
            start, first = at - 1, self._pieces[at - 1].first
        if at < len(self._pieces) and self._firsts[at] == last + 1 and self._pieces[at].value is value:
            end, last = at + 1, self._pieces[at].last
        self._firsts[start:end] = [first]
        self._pieces[start:end] = [ValueRange(first, last, value)]
        if self._max_pieces is not None and len(self._pieces) > self._max_pieces:
            del self._firsts[0], self._pieces[0]

    def overlapping(self, first: int, last: int) -> list[ValueRange[ValueT | None]]:
        """Returns the whole range in ascending pieces; the value is None where there is none."""
        begin = self._begin(first)
        if begin < len(self._pieces):
            piece = self._pieces[begin]
            if piece.first <= first and last <= piece.last:
                return [ValueRange(first, last, piece.value)]
        found: list[ValueRange[ValueT | None]] = []
        for piece in self._pieces[begin:]:
            if piece.first > last:
                break
            if piece.first > first:
                found.append(ValueRange(first, piece.first - 1, None))
            first = max(first, piece.first)
            found.append(ValueRange(first, min(last, piece.last), piece.value))
            first = found[-1].last + 1
        if first <= last:
            found.append(ValueRange(first, last, None))
        return found

    def take(self, first: int, last: int) -> None:
        """Removes all values in the range."""
        start = end = self._begin(first)
        remaining: list[ValueRange[ValueT]] = []
        while end < len(self._pieces) and self._pieces[end].first <= last:
            piece = self._pieces[end]
            if piece.first < first:
                remaining.append(ValueRange(piece.first, first - 1, piece.value))
            if piece.last > last:
                remaining.append(ValueRange(last + 1, piece.last, piece.value))
            end += 1
        if start == end:
            return
        self._firsts[start:end] = [piece.first for piece in remaining]
        self._pieces[start:end] = remaining

    def _begin(self, first: int) -> int:
        """The index of the first piece that ends at or after `first`."""
        at = bisect_right(self._firsts, first) - 1
        return at if at >= 0 and self._pieces[at].last >= first else at + 1
