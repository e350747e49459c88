"""Assembles frames in one reused buffer.

When traffic is analyzed, a frame is no longer needed when the next one comes. Freeing and allocating memory for each
large response costs several times as much as copying it: the system clears and maps it page by page.
"""

from __future__ import annotations

from kshare.protocol.frames import MAX_FRAME, FrameSplitter

_LARGEST = 4 * 1024 * 1024
"""Larger frames are rare: their memory isn't kept, nor allocated in advance for the size in their header."""
_SMALL = 4096
"""Memory for a larger frame is allocated in advance only if one of this size has arrived. Any bytes may look like a
size, on each of thousands of connections."""


class FrameBuffer(FrameSplitter):
    """Like its base class, but a frame is overwritten by the next one unless there is a view of it."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        super().__init__(limit)
        self._largest = _SMALL
        self._buffer = bytearray()
        self._frame: memoryview | None = None

    def is_but_more(self, part: bytes | memoryview) -> bool:
        """Adds a part to a frame that continues after it. Returns False if it can't; faster than `feed`."""
        end = self._held + len(part)
        if self._frame is None or end >= len(self._frame):
            return False
        self._frame[self._held : end] = part
        self._held = end
        return True

    def _keep(self, part: memoryview) -> None:
        if self._wanted is None or self._wanted > self._largest:
            super()._keep(part)
            return
        if self._frame is None:
            self._frame = self._place(self._wanted)
        self._frame[self._held : self._held + len(part)] = part
        self._held += len(part)

    def _join(self, last: memoryview) -> memoryview:
        if self._frame is None:
            joined = super()._join(last)
            self._largest = min(_LARGEST, max(self._largest, len(joined)))
            return joined
        self._frame[self._held :] = last
        frame, self._frame, self._held = self._frame.toreadonly(), None, 0
        return frame

    def _place(self, size: int) -> memoryview:
        if len(self._buffer) < size or not self._is_free():
            self._buffer = bytearray(size)
        return memoryview(self._buffer)[:size]

    def _is_free(self) -> bool:
        """Whether there is no view of the buffer: with one, it can't be resized."""
        try:
            self._buffer.append(0)
        except BufferError:
            return False
        self._buffer.pop()
        return True
