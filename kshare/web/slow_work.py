"""Runs work that takes seconds in threads, a few at a time, so that all other pages remain responsive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kshare.net.in_thread import in_thread
from kshare.web.turns import Turns

_AT_ONCE = 2
_PATIENCE_S = 5.0

T = TypeVar("T")


class SlowWork:
    """Whoever has waited too long for a turn is told to try again."""

    def __init__(self, at_once: int = _AT_ONCE, patience_s: float = _PATIENCE_S) -> None:
        self._turns = Turns(
            at_once, "others are loading captures just now: try again in a moment", patience_s
        )

    async def run(self, work: Callable[[], T]) -> T:
        """Raises HTTPException 503 if others take too long. The work itself must be bounded."""
        async with self._turns.turn():
            return await in_thread(work)
