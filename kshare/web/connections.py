"""Bounds the connections of the console: whoever connects and is silent can't lock others out.

A connection has a few seconds for the headers of a request, and again for those of the next one. If there are too many,
the one that has waited longest for headers is closed, so that new ones find a place.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 10.0
MOST_CONNECTIONS = 512
"""Of which at most 200 show live pages."""


class SilentConnections:
    """Those that wait for the headers of a request, the longest waiting first."""

    def __init__(self, most: int = MOST_CONNECTIONS, headers_s: float = HEADERS_S) -> None:
        self._most = most
        self._headers_s = headers_s
        self._timers: dict[BoundedProtocol, asyncio.TimerHandle] = {}

    def add(self, one: BoundedProtocol) -> None:
        self.discard(one)
        self._timers[one] = one.loop.call_later(self._headers_s, one.hang_up)
        if len(one.connections) > self._most:
            next(iter(self._timers)).hang_up()

    def discard(self, one: BoundedProtocol) -> None:
        timer = self._timers.pop(one, None)
        if timer is not None:
            timer.cancel()


class BoundedProtocol(H11Protocol):
    silent: SilentConnections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.silent.add(self)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:  # a request has begun
            self.silent.discard(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self.silent.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.silent.discard(self)
        super().connection_lost(exc)

    def hang_up(self) -> None:
        self.silent.discard(self)
        self.connections.discard(self)
        self.transport.abort()


def bounded_protocol(silent: SilentConnections | None = None) -> type[asyncio.Protocol]:
    """For uvicorn, which creates an object of it for each connection."""
    attributes: dict[str, Any] = {"silent": silent or SilentConnections()}
    return type("BoundedProtocol", (BoundedProtocol,), attributes)
