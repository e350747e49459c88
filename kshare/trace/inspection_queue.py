"""Bytes that were forwarded and are still to be inspected.

It is received into one room, piece behind piece, and is passed on and looked at there: nothing large is copied. Pieces
of one answer are looked at as one. Decides what is one; never when it is looked at.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from time import time

from kshare.fast.uncleared import uncleared

_ROOM = 4 * 1024 * 1024
_CHUNK = 256 * 1024
"""What there has to be of it to receive into."""
_SMALL = 16 * 1024
_ONE_MOMENT_S = 0.001
"""Pieces that follow each other so closely may be looked at as one that came with the last of them."""
_MOST_PIECES, _MOST_BYTES = 1024, 32 * 1024 * 1024
_LARGEST_PIECE = 31 * 1024 * 1024

See = Callable[[memoryview, float], None]
"""Looks at bytes, told when they came."""


_Piece = tuple[See, memoryview, int, int, float]
"""Who looks at it, the room that it is in, from where to where, and when it came."""


class InspectionQueue:
    def __init__(self) -> None:
        _have_memory_kept()
        self._room = uncleared(_ROOM)
        self._used = 0
        self._pieces: deque[_Piece] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def is_too_much(self) -> bool:
        """Looking should go first: what is to be passed on has to wait, then, and memory doesn't grow."""
        return len(self._pieces) > _MOST_PIECES or self._bytes > _MOST_BYTES

    def receive(self, source: socket.socket) -> memoryview:
        """What has come, in memory that nobody else writes to as long as somebody looks at it."""
        if _ROOM - self._used < _CHUNK:
            self._room = uncleared(_ROOM)
            self._used = 0
        first = self._used
        self._used += source.recv_into(self._room[first:], _CHUNK)
        return self._room[first : self._used]

    def add(self, see: See, size: int) -> None:
        """What was received last, so many bytes, is for `see`."""
        self._bytes += size
        self._pieces.append((see, self._room, self._used - size, self._used, time()))

    def look(self) -> None:
        """At the oldest: no answer before its question."""
        see, room, first, behind, at = self._pieces.popleft()
        while self._pieces:
            next_see, next_room, begins, ends, came = self._pieces[0]
            if next_see is not see or next_room is not room or begins != behind or came - at >= _ONE_MOMENT_S:
                break
            behind, at = ends, came
            self._pieces.popleft()
        self._bytes -= behind - first
        seen = room[first:behind]
        # Who remembers a small question until it is answered shall not keep a large room for it.
        see(memoryview(bytes(seen)) if len(seen) < _SMALL else seen, at)


def _have_memory_kept() -> None:
    """What was passed on is freed soon, and in its place comes the next. glibc gives such pieces back to the system,
    and to get new ones costs more than all that is done with them; unless it has seen a large one come and go."""
    bytes(_LARGEST_PIECE)
