"""Which of many things is due first. Its cost grows with the logarithm of their number."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

ThingT = TypeVar("ThingT", bound=Hashable)

_SLACK = 64


class Schedule(Generic[ThingT]):
    """Each thing is due at one time, which may change. Entries of earlier times are skipped when they come up."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ThingT]] = []
        self._entries: dict[ThingT, tuple[float, int, ThingT]] = {}
        """The entry of each that counts."""
        self._tickets = 0

    @property
    def entry_count(self) -> int:
        """How many entries it keeps, with those that are skipped."""
        return len(self._heap)

    def set(self, thing: ThingT, at: float) -> None:
        known = self._entries.get(thing)
        if known is not None and known[0] == at:
            return
        self._tickets += 1
        entry = self._entries[thing] = (at, self._tickets, thing)
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def remove(self, thing: ThingT) -> None:
        self._entries.pop(thing, None)

    def due(self, now: float) -> list[ThingT]:
        """The things that are due, until they get another time or are removed."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            entry = heappop(self._heap)
            if self._entries.get(entry[2]) is entry:
                found.append(entry)
        for entry in found:
            heappush(self._heap, entry)
        return [thing for _, _, thing in found]

    @property
    def next_at(self) -> float:
        while self._heap and self._entries.get(self._heap[0][2]) is not self._heap[0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")
