"""A loop over the sockets of all connections, which moves bytes between them.

A task that waits on a stream costs more than what there is to do for a piece of an answer. Here one task waits for all
sockets at once, and while they are busy it goes back to the event loop for a moment now and then only.

Decides when what was passed on is looked at: when nothing else is to be done, or after a while, and then at all of it.
Whoever looks at each answer as it comes does so with caches gone cold, takes twice as long, and the cores it takes are
those that client and broker need.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from time import monotonic

import anyio
from anyio.lowlevel import checkpoint

from kshare.trace.inspection_queue import InspectionQueue, See

READABLE, WRITABLE = EVENT_READ, EVENT_WRITE

_IDLE_S = 0.005
"""How long everything else in this process waits for a next event, and how soon what was passed on is looked at."""
_BURST_S = 0.02
"""How long everything else waits while there is no end of events."""
_UNSEEN_S = 0.05
"""How long what was passed on isn't looked at while there is no end of events."""


class SocketLoop:
    def __init__(self) -> None:
        self._selector = DefaultSelector()
        self._interests: dict[socket.socket, int] = {}
        self._unseen = InspectionQueue()
        self._is_looking = False
        self._look_at = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if not self._unseen:
                await anyio.wait_readable(self._selector)
            self._move(monotonic() + _BURST_S)
            await checkpoint()

    def close(self) -> None:
        """Call when no socket is watched any more."""
        self._selector.close()

    def watch(self, connected: socket.socket, interest: int, on_ready: Callable[[int], None]) -> None:
        """Calls `on_ready` with what the socket is ready for."""
        before = self._interests.get(connected, 0)
        if interest == before:
            return
        self._interests[connected] = interest
        if not before:
            self._selector.register(connected, interest, on_ready)
        elif interest:
            self._selector.modify(connected, interest, on_ready)
        else:
            self._selector.unregister(connected)

    def forget(self, *connected: socket.socket) -> None:
        for one in connected:
            if self._interests.pop(one, 0):
                self._selector.unregister(one)

    def receive(self, source: socket.socket) -> memoryview:
        """What has come, to be passed on and looked at later."""
        return self._unseen.receive(source)

    def look_later(self, see: See, size: int) -> None:
        """At what was received last. Keeps the order."""
        self._unseen.add(see, size)

    def look(self) -> None:
        """At everything."""
        while self._unseen:
            self._unseen.look()

    def _move(self, until: float) -> None:
        """Until there is nothing to do for a while."""
        while (now := monotonic()) < until:
            ready = self._selector.select(0 if self._is_looking else _IDLE_S)
            for key, events in ready:
                if key.fileobj in self._interests:
                    key.data(events)
            if not ready and not self._unseen:
                return
            if not ready or now >= self._look_at:
                self._is_looking = True
            if self._unseen.is_too_much or (self._is_looking and not ready):
                self._unseen.look()
            if not self._unseen:
                self._is_looking = False
                self._look_at = now + _UNSEEN_S
