"""What was passed on and not looked at yet, of all connections, in the order in which it came.

Decides when it is looked at: looking takes about as long as the next request needs to come, so that is passed on first,
and then there is time while the broker works. Only where no request comes the backlog remembers by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import anyio

_IDLE_S = 0.01


class Backlog:
    def __init__(self) -> None:
        self._looks: deque[Callable[[], None]] = deque()
        self._news = anyio.Event()

    def add(self, look: Callable[[], None]) -> None:
        self._looks.append(look)
        self._news.set()

    def look(self) -> None:
        """At everything, the oldest first: no answer before its question."""
        while self._looks:
            self._looks.popleft()()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            await anyio.sleep(_IDLE_S)
            self.look()
