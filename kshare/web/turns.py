"""Lets a few requests at a time do what takes memory, connections or time. Others wait a little, and then try again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
from starlette.exceptions import HTTPException

from kshare.net.in_thread import in_thread

_PATIENCE_S = 5.0
_SLOW_AT_ONCE = 2

T = TypeVar("T")


class Turns:
    """Whoever has waited too long for a turn is told so."""

    def __init__(self, at_once: int, reason: str, patience_s: float = _PATIENCE_S) -> None:
        self._free = anyio.Semaphore(at_once)
        self._reason = reason
        self._patience_s = patience_s

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Raises HTTPException 503 if others take too long."""
        with anyio.move_on_after(self._patience_s) as waiting:
            await self._free.acquire()
        if waiting.cancelled_caught:
            raise HTTPException(503, self._reason)
        try:
            yield
        finally:
            self._free.release()


class SlowWork:
    """Runs work that takes seconds in threads, a few at a time, so that all other pages remain responsive."""

    def __init__(self, at_once: int = _SLOW_AT_ONCE, patience_s: float = _PATIENCE_S) -> None:
        self._turns = Turns(
            at_once, "others are loading captures just now: try again in a moment", patience_s
        )

    async def run(self, work: Callable[[], T]) -> T:
        """Raises HTTPException 503 if others take too long. The work itself must be bounded."""
        async with self._turns.turn():
            return await in_thread(work)
