"""What moves bytes from socket to socket, of all connections: a loop of its own over all their sockets.

A task that waits on a stream costs more than what there is to do for a piece of an answer. Here one task waits for all
sockets at once, and while they are busy it goes back to the event loop for a moment now and then only.

Decides how it waits. To be woken takes about as long as what there is to do then, so while one thing follows closely on
the other it stays awake, and lets everybody else run first.

Decides when what was passed on is looked at: looking takes about as long as the next request needs to come, so that is
passed on first, and then there is time while the broker works. Where no request comes, after a while.

What comes is received into one room, piece behind piece, and is passed on and looked at there: nothing large is copied.
Pieces of one answer are looked at as one.
"""

from __future__ import annotations

import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector, SelectorKey
from time import monotonic, time

import anyio
from anyio.lowlevel import checkpoint

from kshare.net.room import new_room

READABLE, WRITABLE = EVENT_READ, EVENT_WRITE

_ROOM = 4 * 1024 * 1024
_CHUNK = 256 * 1024
"""What there has to be of it to receive into."""
_SMALL = 16 * 1024
_ONE_MOMENT_S = 0.001
"""Pieces that follow each other so closely may be looked at as one that came with the last of them."""
_IDLE_S = 0.005
"""How long everything else in this process waits for a next event, and how soon what was passed on is looked at."""
_BURST_S = 0.02
"""How long everything else waits while there is no end of events."""
_SOON_S = 0.002
"""As long as a broker takes for most answers: worth staying awake for."""
_BUSY = 8 if hasattr(os, "sched_yield") else sys.maxsize
"""Events in a row that came soon: then so will the next. Never, where a process can't let others go first."""
_OTHERS_RAN_S = 0.00002
"""Who was away for so long has kept somebody from running, who has more to do."""
_LARGEST_PIECE = 31 * 1024 * 1024
_MOST_LOOKS = 256
"""With more than that, looking goes first: what is passed on meanwhile has to wait, and memory doesn't grow."""


See = Callable[[memoryview, float], None]
"""Looks at bytes, told when they came."""


@dataclass(slots=True)
class _Look:
    see: See
    room: memoryview
    first: int
    behind: int
    at: float

    def take(self) -> None:
        seen = self.room[self.first : self.behind]
        # Who remembers a small question until it is answered shall not keep a large room for it.
        self.see(memoryview(bytes(seen)) if len(seen) < _SMALL else seen, self.at)


class Pump:
    def __init__(self) -> None:
        _have_memory_kept()
        self._room = new_room(_ROOM)
        self._used = 0
        self._selector = DefaultSelector()
        self._interests: dict[socket.socket, int] = {}
        self._looks: deque[_Look] = deque()
        self._is_time_to_look = False
        self._came_at = 0.0
        self._in_a_row = 0
        """Events that came soon after the one before."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if not self._looks:
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
        """What has come, in memory that nobody else writes to as long as somebody looks at it."""
        if _ROOM - self._used < _CHUNK:
            self._room = new_room(_ROOM)
            self._used = 0
        first = self._used
        self._used += source.recv_into(self._room[first:], _CHUNK)
        return self._room[first : self._used]

    def look_later(self, see: See, size: int, *, has_asked: bool) -> None:
        """At the bytes that were received last, so many. Keeps the order.

        `has_asked`: this was a request, and now the broker has to work.
        """
        now, behind = time(), self._used
        last = self._looks[-1] if self._looks else None
        if (
            last is not None
            and last.see is see
            and last.room is self._room
            and last.behind == behind - size
            and now - last.at < _ONE_MOMENT_S
        ):
            last.behind, last.at = behind, now
        else:
            self._looks.append(_Look(see, self._room, behind - size, behind, now))
        self._is_time_to_look |= has_asked

    def look(self) -> None:
        """At everything, the oldest first: no answer before its question."""
        while self._looks:
            self._looks.popleft().take()

    def _move(self, until: float) -> None:
        """Until there is nothing to do for a while."""
        while monotonic() < until:
            has_time = self._looks and self._is_time_to_look
            ready = self._selector.select(0) if has_time else self._wait()
            if ready:
                self._note_arrival()
            for key, events in ready:
                if key.fileobj in self._interests:
                    key.data(events)
            if not ready and not self._looks:
                return
            if not ready or len(self._looks) > _MOST_LOOKS:
                self._looks.popleft().take()
                self._is_time_to_look = bool(self._looks)

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


def _have_memory_kept() -> None:
    """What was passed on is freed soon, and in its place comes the next. glibc gives such pieces back to the system,
    and to get new ones costs more than all that is done with them; unless it has seen a large one come and go."""
    bytes(_LARGEST_PIECE)
