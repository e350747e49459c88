"""What was passed on and hasn't been looked at yet.

It is received into one room, piece behind piece, and is passed on and looked at there: nothing large is copied. Pieces
of one answer are looked at as one. Decides what is one; never when it is looked at.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import time

from kshare.net.room import new_room

_ROOM = 4 * 1024 * 1024
_CHUNK = 256 * 1024
"""What there has to be of it to receive into."""
_SMALL = 16 * 1024
_ONE_MOMENT_S = 0.001
"""Pieces that follow each other so closely may be looked at as one that came with the last of them."""
_MOST_LOOKS, _MOST_BYTES = 256, 32 * 1024 * 1024
_LARGEST_PIECE = 31 * 1024 * 1024

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


class Unseen:
    def __init__(self) -> None:
        _have_memory_kept()
        self._room = new_room(_ROOM)
        self._used = 0
        self._looks: deque[_Look] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._looks)

    @property
    def is_too_much(self) -> bool:
        """Looking should go first: what is to be passed on has to wait, then, and memory doesn't grow."""
        return len(self._looks) > _MOST_LOOKS or self._bytes > _MOST_BYTES

    def receive(self, source: socket.socket) -> memoryview:
        """What has come, in memory that nobody else writes to as long as somebody looks at it."""
        if _ROOM - self._used < _CHUNK:
            self._room = new_room(_ROOM)
            self._used = 0
        first = self._used
        self._used += source.recv_into(self._room[first:], _CHUNK)
        return self._room[first : self._used]

    def add(self, see: See, size: int) -> None:
        """What was received last, so many bytes, is for `see`."""
        self._bytes += size
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

    def look(self) -> None:
        """At the oldest: no answer before its question."""
        look = self._looks.popleft()
        self._bytes -= look.behind - look.first
        look.take()


def _have_memory_kept() -> None:
    """What was passed on is freed soon, and in its place comes the next. glibc gives such pieces back to the system,
    and to get new ones costs more than all that is done with them; unless it has seen a large one come and go."""
    bytes(_LARGEST_PIECE)
