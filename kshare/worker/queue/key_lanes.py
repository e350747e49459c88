"""Order by key: one record of a key at a time, the others wait behind it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")


class KeyLanes(Generic[T]):
    """Lets one item of each key through, in the order of arrival. Items without a key (None) are never held up."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, deque[T]] = {}
        """Keys that are busy, with the items that wait."""
        self._waiting = 0

    def __len__(self) -> int:
        """How many items wait."""
        return self._waiting

    def __iter__(self) -> Iterator[T]:
        """The items that wait."""
        return chain.from_iterable(self._lanes.values())

    def enter(self, key: Hashable, item: T) -> bool:
        """Whether the item may go on at once; otherwise it waits until `leave` returns it."""
        if key is None:
            return True
        lane = self._lanes.get(key)
        if lane is None:
            self._lanes[key] = deque()
            return True
        lane.append(item)
        self._waiting += 1
        return False

    def behind(self, key: Hashable) -> Iterable[T]:
        """The items of this key that wait."""
        return self._lanes.get(key, ())

    def leave(self, key: Hashable) -> T | None:
        """An item of this key is done: returns the next one, which may go on now."""
        lane = self._lanes.get(key)
        if lane is None:
            return None
        if not lane:
            del self._lanes[key]
            return None
        self._waiting -= 1
        return lane.popleft()

    def keep_busy(self, keys: Iterable[Hashable]) -> None:
        """Items of these keys aren't done yet. This is for after `take_all`, which forgets them."""
        for key in keys:
            self._lanes.setdefault(key, deque())

    def take_all(self) -> list[T]:
        """Take out all items that wait, and forget which keys are busy."""
        items = [item for lane in self._lanes.values() for item in lane]
        self._lanes.clear()
        self._waiting = 0
        return items
