"""Reads whole frames from a stream, large ones directly into separate memory, with or without TLS.

Decides only where bytes are written; the splitter checks sizes and finds the frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kshare.fast.uninitialized import uninitialized
from kshare.net.stream import Stream
from kshare.protocol.frames import FrameSplitter

CHUNK = 16 * 1024
"""How much is read at once at the start of a frame. Smaller frames are read at once; of larger ones this is copied."""
_MIN_REST = 16 * 1024
"""How much of a frame must be missing for it to get separate memory."""
_WAKEUP_BYTES = 256 * 1024
"""How much of a large frame must have arrived for a wake-up to be worthwhile."""


class FrameReader:
    """`on_bytes` is called with all bytes as they arrive, to detect that the peer is alive and its protocol."""

    def __init__(self, stream: Stream, limit: int, on_bytes: Callable[[bytes | memoryview], None]) -> None:
        self._stream = stream
        self._splitter = FrameSplitter(limit)
        self._on_bytes = on_bytes
        self._chunk = uninitialized(CHUNK)
        self._rest = memoryview(b"")
        """The rest of a large frame: the memory still to be filled."""

    def read(self) -> Sequence[memoryview]:
        """Returns the next frames; none if nothing more has arrived for now.

        Call it again for more. It returns in between so that other tasks can run even if bytes never stop arriving.
        Raises errors of the stream, and DecodeError for an invalid frame.
        """
        frames: Sequence[memoryview] = ()
        while not frames:
            buffer = self._rest or self._chunk
            count = self._stream.receive_now(buffer)
            if count is None:
                self._stream.set_read_threshold(max(1, min(len(self._rest), _WAKEUP_BYTES)))
                break
            self._on_bytes(buffer[:count])
            frames = self._take_rest(count) if self._rest else self._take_chunk(count)
        return frames

    def _take_rest(self, count: int) -> Sequence[memoryview]:
        self._rest = self._rest[count:]
        if self._rest:
            return ()
        # The next frame may be small, and has to wake up the reader as well.
        self._stream.set_read_threshold(1)
        return (self._splitter.end_rest(),)

    def _take_chunk(self, count: int) -> Sequence[memoryview]:
        # A copy, since small frames are views of it: a kept frame shouldn't keep the whole chunk alive.
        frames = list(self._splitter.feed(bytes(self._chunk[:count])))
        if self._splitter.missing >= _MIN_REST:
            self._rest = self._splitter.begin_rest(uninitialized)
        return frames
