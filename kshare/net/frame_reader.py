"""Whole frames from a stream, received straight into each frame's own memory, whether decrypted on the way or not.

Decides nothing but where bytes are written; what a size may be is the splitter's rule, and so is what is no frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from anyio.lowlevel import checkpoint

from kshare.net.room import new_room
from kshare.net.tcp import TcpStream
from kshare.protocol.frames import FrameSplitter

CHUNK = 64 * 1024
"""What is read at once while no frame is begun: small frames come whole, of a large one this much is copied."""
_WORTHWHILE = 16 * 1024
"""What has to be missing of a frame for it to be read into memory of its own."""
_GULP = 256 * 1024
"""How much of a large frame has to be there for it to be worth waking up."""


class FrameReader:
    """`on_bytes` is given what comes, as it comes: to notice life, and what is spoken."""

    def __init__(self, stream: TcpStream, limit: int, on_bytes: Callable[[bytes | memoryview], None]) -> None:
        self._stream = stream
        self._splitter = FrameSplitter(limit)
        self._on_bytes = on_bytes
        self._ready: deque[memoryview] = deque()
        self._was_large = False

    async def next_frame(self) -> memoryview:
        """Raises what the stream raises, and DecodeError for what can't be a frame."""
        if self._was_large:
            # Bytes that are always there would keep everybody else waiting, the one first whose answer this was.
            await checkpoint()
        while not self._ready:
            if self._splitter.missing >= _WORTHWHILE:
                await self._fill()
            else:
                chunk = await self._stream.receive(CHUNK)
                self._on_bytes(chunk)
                self._ready.extend(self._splitter.feed(chunk))
        frame = self._ready.popleft()
        self._was_large = len(frame) > CHUNK
        return frame

    async def _fill(self) -> None:
        room = self._splitter.begin_rest(new_room)
        at = 0
        while at < len(room):
            count = await self._stream.receive_into(room[at:], wake_at=min(len(room) - at, _GULP))
            self._on_bytes(room[at : at + count])
            at += count
        self._ready.append(self._splitter.end_rest())
