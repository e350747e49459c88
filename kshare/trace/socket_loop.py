"""A loop over the sockets of all connections, which moves bytes between them.

A task that waits on a stream costs more than forwarding a piece of a response. Here one task waits for all sockets at
once, and while they are busy it returns to the event loop only now and then.

Decides when forwarded bytes are inspected: when the sockets are idle, or after a while, and then all of them.
Inspecting each response as it arrives takes twice as long, because the caches are cold then, and takes CPU time that
client and broker need.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from time import monotonic

import anyio
from anyio.lowlevel import checkpoint

from kshare.trace.inspection_queue import InspectionQueue

READABLE, WRITABLE = EVENT_READ, EVENT_WRITE

_IDLE_S = 0.005
"""How long to wait for the next event before other tasks run, and before forwarded bytes are inspected."""
_SLICE_S = 0.02
"""How long other tasks wait at most while events keep coming."""
_UNSEEN_S = 0.05
"""How long inspection is put off at most while events keep coming."""


class SocketLoop:
    def __init__(self) -> None:
        self._selector = DefaultSelector()
        self._interests: dict[socket.socket, int] = {}
        self.unseen = InspectionQueue()
        """Receives what is to be forwarded now and inspected later."""
        self._is_looking = False
        self._look_at = 0.0

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            if not self.unseen:
                await anyio.wait_readable(self._selector)
            self._move(monotonic() + _SLICE_S)
            await checkpoint()

    def close(self) -> None:
        """Call it when no socket is watched any more."""
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
        for source in connected:
            if self._interests.pop(source, 0):
                self._selector.unregister(source)

    def look(self) -> None:
        """Inspects everything that is queued."""
        while self.unseen:
            self.unseen.look()

    def _move(self, until: float) -> None:
        """Handles events until `until`, or until nothing is left to do."""
        while (now := monotonic()) < until:
            ready = self._selector.select(0 if self._is_looking else _IDLE_S)
            for key, events in ready:
                if key.fileobj in self._interests:
                    key.data(events)
            if not ready and not self.unseen:
                return
            if not ready or now >= self._look_at:
                self._is_looking = True
            if self.unseen.is_too_much or (self._is_looking and not ready):
                self.unseen.look()
            if not self.unseen:
                self._is_looking = False
                self._look_at = now + _UNSEEN_S
