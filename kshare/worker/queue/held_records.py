"""Records that wait for their next attempt in the worker, and the in-flight windows that they pin. Pure.

While a record is held, its share-partition's in-flight window can't move beyond it, for the whole group: the window
spans from the first unsettled record to the last acquired one, and its size is limited. So holding has a budget, both
of records and of span. When it is spent, the oldest records have to go first (`over_budget`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")
NumberT = TypeVar("NumberT", int, float)
TopicPartition = tuple[str, int]

_UNTIDY = 64
"""So many entries that are no longer needed are never worth removing."""


class HeldBack(Generic[T]):
    def __init__(self) -> None:
        self._numbers = count()
        self._held: dict[int, tuple[TopicPartition, int, T]] = {}
        self._due: list[tuple[float, int]] = []
        self._oldest: dict[TopicPartition, list[tuple[int, int]]] = {}
        self._newest: dict[TopicPartition, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[T]:
        return (item for _, _, item in self._held.values())

    def saw(self, where: TopicPartition, last_offset: int) -> None:
        """Records up to this offset were acquired: the window reaches that far at least."""
        if last_offset > self._newest.get(where, -1):
            self._newest[where] = last_offset

    def reset_window(self, where: TopicPartition) -> None:
        """The topic was created again: its offsets begin at 0."""
        self._newest.pop(where, None)

    def newest(self, where: TopicPartition) -> int:
        """How far the window reaches, as far as we know; -1 if we know nothing."""
        return self._newest.get(where, -1)

    def first_offsets(self) -> dict[TopicPartition, int]:
        """The first held offset of each partition."""
        return {where: oldest[0][0] for where, oldest in self._oldest.items() if self._forget_taken(oldest)}

    def span(self, where: TopicPartition, offset: int) -> int:
        """How much of the window is pinned by a record that isn't settled."""
        return self._newest.get(where, offset) - offset + 1

    def add(self, where: TopicPartition, offset: int, due_at: float, item: T) -> None:
        number = next(self._numbers)
        self._held[number] = (where, offset, item)
        oldest = self._oldest.setdefault(where, [])
        heapq.heappush(self._due, (due_at, number))
        heapq.heappush(oldest, (offset, number))
        self._tidy(self._due)
        self._tidy(oldest)

    @property
    def next_due(self) -> float | None:
        self._forget_taken(self._due)
        return self._due[0][0] if self._due else None

    def take_due(self, now: float) -> Iterator[T]:
        """Take out what is due."""
        while (due_at := self.next_due) is not None and due_at <= now:
            yield self._held.pop(heapq.heappop(self._due)[1])[2]

    def over_budget(self, max_records: int, max_span: int) -> Iterator[T]:
        """Take out what has to go: first the records that pin too much, then the oldest of the others. `max_span`: how
        many offsets of a share-partition's window a held record may pin.

        Between two steps, others may add records or take them out.
        """
        for where, oldest in list(self._oldest.items()):
            while self._forget_taken(oldest) and self.span(where, oldest[0][0]) > max_span:
                yield self._held.pop(heapq.heappop(oldest)[1])[2]
            if not oldest and self._oldest.get(where) is oldest:
                del self._oldest[where]
        while len(self._held) > max_records:
            # Dictionaries keep the order of insertion.
            yield self._held.pop(next(iter(self._held)))[2]

    def take_all(self) -> list[tuple[T, float]]:
        """Take out everything, with the times at which it is due."""
        items = [(self._held[number][2], due_at) for due_at, number in self._due if number in self._held]
        self._held.clear()
        self._due.clear()
        self._oldest.clear()
        return items

    def _tidy(self, heap: list[tuple[NumberT, int]]) -> None:
        """Remove entries of records that were taken out, once they are most of the heap: they would pile up behind a
        record that stays for long."""
        if len(heap) > 2 * len(self._held) + _UNTIDY:
            heap[:] = [entry for entry in heap if entry[1] in self._held]
            heapq.heapify(heap)

    def _forget_taken(self, heap: list[tuple[NumberT, int]]) -> bool:
        """Drop entries of records that were taken out through another heap. Returns whether any is left."""
        while heap and heap[0][1] not in self._held:
            heapq.heappop(heap)
        return bool(heap)
