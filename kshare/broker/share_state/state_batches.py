"""Combines the stored state batches with those of an update.

Where batches overlap, the one with the higher delivery count wins, or, if these are equal, the one with the higher
state. Adjacent batches with the same state and count are merged, except if the first of them was finished before the
second got its final bounds. That is the order in which Kafka works, and clients of ReadShareGroupState see the result.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple


class StateBatch(NamedTuple):
    """Consecutive offsets in one state. Numbers are those of the protocol."""

    first: int
    last: int
    state: int
    deliveries: int

    @property
    def weight(self) -> tuple[int, int]:
        return self.deliveries, self.state


def combine(stored: Iterable[StateBatch], written: Iterable[StateBatch], start: int) -> list[StateBatch]:
    """Ascending batches without overlaps and without offsets before `start`."""
    combined = (*stored, *_walk(list(written)))
    return _walk([_cut(batch, start) for batch in combined if batch.last >= start or start < 0])


def _walk(waiting: list[StateBatch]) -> list[StateBatch]:
    waiting.sort(key=_order)
    done: list[StateBatch] = []
    while waiting:
        earlier = waiting.pop(0)
        if not waiting:
            done.append(earlier)
            break
        later = waiting[0]
        is_same = earlier.weight == later.weight
        if earlier.last + 1 < later.first or (earlier.last < later.first and not is_same):
            done.append(earlier)
            continue
        waiting.pop(0)
        for piece in _merged(earlier, later, is_same):
            insort(waiting, piece, key=_order)
    return done


def _merged(earlier: StateBatch, later: StateBatch, is_same: bool) -> list[StateBatch]:
    """Merge two overlapping batches; `earlier` doesn't begin after `later`."""
    if is_same:
        return [earlier._replace(last=max(earlier.last, later.last))]
    if later.weight > earlier.weight:
        pieces = [earlier._replace(last=later.first - 1), later, earlier._replace(first=later.last + 1)]
    else:
        pieces = [earlier, later._replace(first=earlier.last + 1)]
    return [piece for piece in pieces if piece.first <= piece.last]


def _cut(batch: StateBatch, start: int) -> StateBatch:
    return batch._replace(first=max(batch.first, start)) if start >= 0 else batch


def _order(batch: StateBatch) -> tuple[int, int, int, int]:
    return batch.first, batch.last, batch.deliveries, batch.state
