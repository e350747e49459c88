"""Lets a few requests at a time do what takes memory, connections or time. Others wait a little, and then try again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.exceptions import HTTPException

_PATIENCE_S = 5.0


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
