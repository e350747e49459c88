"""A request whose reply is awaited, be it one or, where each reply leads to another request, several.

Decides nothing: a note that the connection and whoever asked both write on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from kshare.protocol.message import Request


@dataclass(slots=True, eq=False)
class PendingRequest:
    request: Request[Any]
    """Of several the one that is under way, or was the last."""
    on_reply: OnReply | None = None
    version: int = 0
    correlation_id: int = 0
    frame: bytes = b""
    since: float = 0.0
    """When this was sent, or began to wait for its turn: the time for a reply runs from here."""
    is_answered: bool = False
    """The reply to this request has come, and could be read: the last one, then."""
    is_done: bool = False
    """There is a reply, an error, or the connection is over."""
    reply: memoryview | None = None
    """The frame; of several replies the last."""
    error: Exception | None = None
    """Why it couldn't be sent, or what `on_reply` raised."""
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


OnReply = Callable[[PendingRequest, Any], Request[Any] | None]
"""Takes a reply, and says what to ask next. Called in the moment that the reply is there: it can't wait."""
