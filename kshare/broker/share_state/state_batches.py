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


def combine(known: Iterable[StateBatch], said: Iterable[StateBatch], start: int) -> list[StateBatch]:
    """Ascending batches without overlaps and without offsets before `start`."""
    together = (*known, *_walk(list(said)))
    return _walk([_cut(batch, start) for batch in together if batch.last >= start or start < 0])


def _walk(waiting: list[StateBatch]) -> list[StateBatch]:
    waiting.sort(key=_order)
    done: list[StateBatch] = []
    while waiting:
        here = waiting.pop(0)
        if not waiting:
            done.append(here)
            break
        there = waiting[0]
        is_same = here.weight == there.weight
        if here.last + 1 < there.first or (here.last < there.first and not is_same):
            done.append(here)
            continue
        waiting.pop(0)
        for piece in _merged(here, there, is_same):
            insort(waiting, piece, key=_order)
    return done


def _merged(here: StateBatch, there: StateBatch, is_same: bool) -> list[StateBatch]:
    """Merge two overlapping batches; `here` doesn't begin after `there`."""
    if is_same:
        return [here._replace(last=max(here.last, there.last))]
    if there.weight > here.weight:
        pieces = [here._replace(last=there.first - 1), there, here._replace(first=there.last + 1)]
    else:
        pieces = [here, there._replace(first=here.last + 1)]
    return [piece for piece in pieces if piece.first <= piece.last]


def _cut(batch: StateBatch, start: int) -> StateBatch:
    return batch._replace(first=max(batch.first, start)) if start >= 0 else batch


def _order(batch: StateBatch) -> tuple[int, int, int, int]:
    return batch.first, batch.last, batch.deliveries, batch.state
