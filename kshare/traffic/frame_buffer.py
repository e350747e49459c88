"""Assembles frames in one reused buffer.

Who looks at traffic is done with a frame before the next one comes. Memory that is given back for each large answer and
asked for anew costs several times what copying does: the system clears it and maps it, page by page.
"""

from __future__ import annotations

from kshare.protocol.frames import FrameSplitter

_LARGEST = 4 * 1024 * 1024
"""Larger frames are rare, and their memory isn't kept, nor taken by what is announced."""


class FrameBuffer(FrameSplitter):
    """As its parent, but a frame stays in its place only as long as somebody has a view of it."""

    def __init__(self) -> None:
        super().__init__()
        self._room = bytearray()
        self._begun: memoryview | None = None

    def is_but_more(self, part: bytes | memoryview) -> bool:
        """Whether a frame is under way that ends behind this part, which is kept then; quicker than `feed`."""
        end = self._held + len(part)
        if self._begun is None or end >= len(self._begun):
            return False
        self._begun[self._held : end] = part
        self._held = end
        return True

    def _keep(self, part: memoryview) -> None:
        if self._wanted is None or self._wanted > _LARGEST:
            super()._keep(part)
            return
        if self._begun is None:
            self._begun = self._place(self._wanted)
        self._begun[self._held : self._held + len(part)] = part
        self._held += len(part)

    def _join(self, last: memoryview) -> memoryview:
        if self._begun is None:
            return super()._join(last)
        self._begun[self._held :] = last
        whole, self._begun, self._held = self._begun.toreadonly(), None, 0
        return whole

    def _place(self, size: int) -> memoryview:
        if len(self._room) < size or not self._is_free():
            self._room = bytearray(size)
        return memoryview(self._room)[:size]

    def _is_free(self) -> bool:
        """What somebody has a view of can't change its length."""
        try:
            self._room.append(0)
        except BufferError:
            return False
        self._room.pop()
        return True
