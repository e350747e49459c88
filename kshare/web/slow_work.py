"""Runs work that takes seconds in threads, a few at a time, so that all other pages remain responsive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread
from starlette.exceptions import HTTPException

_AT_ONCE = 2
_PATIENCE_S = 5.0

T = TypeVar("T")


class SlowWork:
    """Whoever has waited too long for a turn is told to try again."""

    def __init__(self, at_once: int = _AT_ONCE, patience_s: float = _PATIENCE_S) -> None:
        self._turns = anyio.Semaphore(at_once)
        self._patience_s = patience_s

    async def run(self, work: Callable[[], T]) -> T:
        """Raises HTTPException 503 if others take too long. The work itself must be bounded."""
        with anyio.move_on_after(self._patience_s) as waiting:
            await self._turns.acquire()
        if waiting.cancelled_caught:
            raise HTTPException(503, "others are loading captures just now: try again in a moment")
        try:
            return await to_thread.run_sync(work)
        finally:
            self._turns.release()
