"""An asyncio loop whose time jumps to the next timer when nothing can run."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from anyio._backends._asyncio import CancelScope

START_S = 1_000.0


class Standstill(Exception):
    """No task can ever run again: nothing waits for a time."""


class _InOrder(dict[Any, None]):
    """A set that is iterated in the order of insertion. Sets of tasks depend on addresses in memory."""

    def add(self, one: Any) -> None:
        self[one] = None

    def remove(self, one: Any) -> None:
        del self[one]

    def discard(self, one: Any) -> None:
        self.pop(one, None)


@contextmanager
def cancelling_in_order() -> Iterator[None]:
    """Let anyio's scopes cancel their tasks in the same order each time."""
    real = CancelScope.__init__

    def begin(self: Any, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        self._child_scopes, self._tasks = _InOrder(), _InOrder()

    CancelScope.__init__ = begin  # type: ignore[method-assign]
    try:
        yield
    finally:
        CancelScope.__init__ = real  # type: ignore[method-assign]


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Only for programs without threads and sockets."""

    def __init__(self) -> None:
        self._selector_of_time = _Selector()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        return self._selector_of_time.now

    def jump(self, seconds: float) -> None:
        """As if the process had computed all that time."""
        self._selector_of_time.now += seconds


class _Selector(selectors.BaseSelector):
    """Instead of waiting for sockets, it sets the time forward."""

    def __init__(self) -> None:
        self.now = START_S
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Asyncio registers a pipe with which threads wake the loop. There are none."""
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, int(fileobj), events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Standstill
        self.now += max(0.0, timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys
