"""Runs a coroutine and interferes each time it waits: to cancel it at every place where it can be cancelled."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")


class Stepped(Generic[ResultT]):
    """`await` it instead of the coroutine. `on_wait` is called with 1, 2 ... whenever the coroutine waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, ResultT], on_wait: Callable[[int], object]) -> None:
        self._coroutine = coroutine
        self._on_wait = on_wait
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, ResultT]:
        value: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                waited_for = self._coroutine.send(value) if thrown is None else self._coroutine.throw(thrown)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            self.waits += 1
            self._on_wait(self.waits)
            value, thrown = None, None
            try:
                value = yield waited_for
            except BaseException as error:
                thrown = error
