"""Whole frames from a stream, received straight into each frame's own memory, whether decrypted on the way or not.

Decides nothing but where bytes are written; what a size may be is the splitter's rule, and so is what is no frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kshare.fast.uncleared import uncleared
from kshare.net.tcp import TcpStream
from kshare.protocol.frames import FrameSplitter

CHUNK = 16 * 1024
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
        self._chunk = uncleared(CHUNK)
        self._rest = memoryview(b"")
        """Of a large frame: where what is missing is to be written."""

    def read(self) -> Sequence[memoryview]:
        """The next frames, as soon as there are any; none when nothing more has come for now.

        Whoever wants more reads again, and may let others go first: bytes that are always there would keep them all
        waiting. Raises what the stream raises, and DecodeError for what can't be a frame.
        """
        frames: Sequence[memoryview] = ()
        while not frames:
            room = self._rest or self._chunk
            count = self._stream.receive_now(room)
            if count is None:
                self._stream.wake_at(max(1, min(len(self._rest), _GULP)))
                break
            self._on_bytes(room[:count])
            frames = self._take_rest(count) if self._rest else self._take_chunk(count)
        return frames

    def _take_rest(self, count: int) -> Sequence[memoryview]:
        self._rest = self._rest[count:]
        if self._rest:
            return ()
        # What comes next may be small, and somebody else may wait for it before anybody reads here again.
        self._stream.wake_at(1)
        return (self._splitter.end_rest(),)

    def _take_chunk(self, count: int) -> Sequence[memoryview]:
        # A copy, for small frames are views of it: nobody shall keep a whole chunk for one of them.
        frames = list(self._splitter.feed(bytes(self._chunk[:count])))
        if self._splitter.missing >= _WORTHWHILE:
            self._rest = self._splitter.begin_rest(uncleared)
        return frames
