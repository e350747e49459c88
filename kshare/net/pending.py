"""A pending request, or a chain of requests in which each response leads to the next request.

Only state, shared by the connection and the caller.
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
    """In a chain: the one under way, or the last one."""
    on_response: OnResponse | None = None
    version: int = 0
    correlation_id: int = 0
    frame: bytes = b""
    since: float = 0.0
    """When this was sent, or queued: the timeout counts from here."""
    has_response: bool = False
    """The response to `request` has arrived and could be decoded."""
    is_done: bool = False
    """There is a final response or an error, or the connection has ended."""
    response: memoryview | None = None
    """The frame of the last response."""
    error: Exception | None = None
    """Why it couldn't be sent, or what `on_response` raised."""
    _event: anyio.Event | None = None
    """Created only when a task waits, which makes sending a little faster."""

    def finish(self) -> None:
        self.is_done = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Waits until it is done. Only one task may wait at a time."""
        if not self.is_done:
            self._event = anyio.Event()
            await self._event.wait()


OnResponse = Callable[[PendingRequest, Any], Request[Any] | None]
"""Takes a response and returns the next request, or None. Called when the response arrives; it can't await anything."""
