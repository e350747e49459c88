"""Keeps what users have loaded, so that its pages can be opened one by one: in memory, and not for long.

Decides how much is kept. Only the browser session that has loaded something gets it back.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio

LIFETIME_S = 30 * 60.0
_MOST = 20
_MOST_BYTES = 64 << 20
_LOOK_S = 30.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kept:
    owner: str
    value: object
    size: int
    until: float


class KeptInputs:
    def __init__(
        self, clock: Callable[[], float] = time.monotonic, most: int = _MOST, most_bytes: int = _MOST_BYTES
    ) -> None:
        self._clock = clock
        self._most = most
        self._most_bytes = most_bytes
        self._kept: dict[str, _Kept] = {}

    def keep(self, owner: str, value: object, size: int) -> str:
        """Returns the id by which its owner gets it. The oldest make room; the newest is kept whatever its size."""
        key = secrets.token_urlsafe(12)
        self._kept[key] = _Kept(owner, value, size, self._clock() + LIFETIME_S)
        self.drop_old()
        return key

    def get(self, owner: str, key: str, kind: type[T]) -> T | None:
        self.drop_old()
        found = self._kept.get(key)
        if found is None or found.owner != owner or not isinstance(found.value, kind):
            return None
        return found.value

    def drop_old(self) -> None:
        now = self._clock()
        total = sum(kept.size for kept in self._kept.values())
        for key, kept in list(self._kept.items()):
            is_too_much = len(self._kept) > 1 and (len(self._kept) > self._most or total > self._most_bytes)
            if kept.until > now and not is_too_much:
                return
            del self._kept[key]
            total -= kept.size

    @asynccontextmanager
    async def dropping(self) -> AsyncIterator[None]:
        """Drops what is old even if nobody asks for anything."""

        async def drop() -> None:
            while True:
                await anyio.sleep(_LOOK_S)
                self.drop_old()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drop)
            yield
            tasks.cancel_scope.cancel()
