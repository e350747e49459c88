"""Bytes that were forwarded and are still to be inspected.

They are received into one large buffer, one piece after another, and are forwarded and inspected in place: nothing
large is copied. Decides which pieces are inspected together; the socket loop decides when.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from time import time

from kshare.fast.uninitialized import uninitialized

_ROOM = 4 * 1024 * 1024
_CHUNK = 256 * 1024
"""The most to receive at once. If less of the buffer is left, a new one is taken."""
_SMALL = 16 * 1024
_ONE_MOMENT_S = 0.001
"""Pieces that arrive closer together than this are inspected as one, with the time of the last."""
_MOST_PIECES, _MOST_BYTES = 1024, 32 * 1024 * 1024
_LARGEST_PIECE = 31 * 1024 * 1024

See = Callable[[memoryview, float], None]
"""Inspects bytes; the second argument is the time of their arrival."""


_Piece = tuple[See, memoryview, int, int, float]
"""The function that inspects it, its buffer, its start and end in there, and the time of its arrival."""


class InspectionQueue:
    def __init__(self) -> None:
        _keep_freed_memory()
        self._room = uninitialized(_ROOM)
        self._used = 0
        self._pieces: deque[_Piece] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def is_too_much(self) -> bool:
        """Inspect before forwarding more, so that memory doesn't grow."""
        return len(self._pieces) > _MOST_PIECES or self._bytes > _MOST_BYTES

    def receive(self, source: socket.socket) -> memoryview:
        """Receives into memory that isn't overwritten as long as there is a view of it."""
        if _ROOM - self._used < _CHUNK:
            self._room = uninitialized(_ROOM)
            self._used = 0
        first = self._used
        self._used += source.recv_into(self._room[first:], _CHUNK)
        return self._room[first : self._used]

    def add(self, observe: See, size: int) -> None:
        """Queues the last `size` bytes that were received, to be inspected by `observe`."""
        self._bytes += size
        self._pieces.append((observe, self._room, self._used - size, self._used, time()))

    def look(self) -> None:
        """Inspects the oldest pieces. The order is kept, so that no response comes before its request."""
        observe, buffer, first, end, at = self._pieces.popleft()
        while self._pieces:
            next_observe, next_buffer, next_first, next_end, added_at = self._pieces[0]
            if (
                next_observe is not observe
                or next_buffer is not buffer
                or next_first != end
                or added_at - at >= _ONE_MOMENT_S
            ):
                break
            end, at = next_end, added_at
            self._pieces.popleft()
        self._bytes -= end - first
        data = buffer[first:end]
        # A copy: small requests are kept until their responses arrive, and must not keep the large buffer alive.
        observe(memoryview(bytes(data)) if len(data) < _SMALL else data, at)


def _keep_freed_memory() -> None:
    """Makes glibc keep the memory of freed buffers, for the next one. By default it returns blocks of this size to the
    system, and getting new ones costs more than everything done with them. It keeps them after a larger one was
    freed."""
    bytes(_LARGEST_PIECE)
