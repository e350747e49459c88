"""An asker's place at a connection, from its request to the answer, or to the last of several.

Decides nothing: a note that connection and asker both write on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from kshare.protocol.message import Request

GoOn = Callable[[Any], Request[Any] | None]
"""Takes an answer, and says what to ask next. Called in the moment that the answer is there: it can't wait."""


@dataclass(slots=True, eq=False)
class Waiting:
    request: Request[Any]
    version: int
    go_on: GoOn | None = None
    correlation_id: int = 0
    since: float = 0.0
    """When this was asked: the time for an answer runs from here."""
    is_done: bool = False
    """There is an answer, an error, or the connection is over."""
    frame: memoryview | None = None
    """The answer; of several the last."""
    error: Exception | None = None
    """What `go_on` raised."""
    left_to_ask: Request[Any] | None = None
    """What `go_on` wants to know, and couldn't be asked at once."""
    _event: anyio.Event | None = None
    """Not made before somebody waits: what leaves at once does so a little sooner."""

    def finish(self) -> None:
        self.is_done = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Until it is done; one at a time."""
        if not self.is_done:
            self._event = anyio.Event()
            await self._event.wait()
