"""What moves bytes from socket to socket, of all connections: a loop of its own over all their sockets.

A task that waits on a stream costs more than what there is to do for a piece of an answer. Here one task waits for all
sockets at once, and while they are busy it goes back to the event loop for a moment now and then only.

Decides how it waits. To be woken takes about as long as what there is to do then, so while one small thing follows
closely on the other it stays awake, and lets everybody else run first.

Decides when what was passed on is looked at: looking takes about as long as the next request needs to come, so that is
passed on first, and then there is time while the broker works. Where no request comes, after a while.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector, SelectorKey
from time import monotonic

import anyio
from anyio.lowlevel import checkpoint

from kshare.trace.unseen import See, Unseen

READABLE, WRITABLE = EVENT_READ, EVENT_WRITE

_IDLE_S = 0.005
"""How long everything else in this process waits for a next event, and how soon what was passed on is looked at."""
_BURST_S = 0.02
"""How long everything else waits while there is no end of events."""
_SOON_S = 0.002
"""As long as a broker takes for most answers: worth staying awake for."""
_BUSY = 8 if hasattr(os, "sched_yield") else sys.maxsize
"""Events in a row that came soon: then so will the next. Never, where a process can't let others go first."""
_BULK = 64 * 1024
"""Who gets so much at once has something to do for a while, and needs the core for it: nothing follows closely."""
_OTHERS_RAN_S = 0.00002
"""Who was away for so long has kept somebody from running, who has more to do."""


class Pump:
    def __init__(self) -> None:
        self._selector = DefaultSelector()
        self._interests: dict[socket.socket, int] = {}
        self._unseen = Unseen()
        self._is_time_to_look = False
        self._came_at = 0.0
        self._in_a_row = 0
        """Events that came soon after the one before."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if not self._unseen:
                await anyio.wait_readable(self._selector)
            self._move(monotonic() + _BURST_S)
            await checkpoint()

    def close(self) -> None:
        """When nobody is watched any more."""
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
        received = self._unseen.receive(source)
        if len(received) >= _BULK:
            self._in_a_row = 0
        return received

    def look_later(self, see: See, size: int, *, has_asked: bool) -> None:
        """At what was received last. Keeps the order. `has_asked`: a request, so now the broker has to work."""
        self._unseen.add(see, size)
        self._is_time_to_look |= has_asked

    def look(self) -> None:
        """At everything."""
        while self._unseen:
            self._unseen.look()

    def _move(self, until: float) -> None:
        """Until there is nothing to do for a while."""
        while monotonic() < until:
            has_time = self._unseen and self._is_time_to_look
            ready = self._selector.select(0) if has_time else self._wait()
            if ready:
                self._note_arrival()
            for key, events in ready:
                if key.fileobj in self._interests:
                    key.data(events)
            if not ready and not self._unseen:
                return
            if not ready or self._unseen.is_too_much:
                self._unseen.look()
                self._is_time_to_look = bool(self._unseen)

    def _wait(self) -> list[tuple[SelectorKey, int]]:
        """For something to do, not long."""
        ready = self._selector.select(0)
        if self._in_a_row >= _BUSY:
            now = monotonic()
            while not ready and now < self._came_at + _SOON_S:
                os.sched_yield()
                ready = self._selector.select(0)
                before, now = now, monotonic()
                if now - before > _OTHERS_RAN_S:
                    break
        return ready or self._selector.select(_IDLE_S)

    def _note_arrival(self) -> None:
        now = monotonic()
        self._in_a_row = self._in_a_row + 1 if now < self._came_at + _SOON_S else 0
        self._came_at = now
