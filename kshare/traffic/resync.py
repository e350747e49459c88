"""Splits one direction of a connection into frames, and finds the next frame after missing bytes.

Without missing bytes, each frame's size leads to the next. After missing bytes, or if a capture begins in the middle, a
frame is searched: at the beginning of a received piece (where brokers and clients start frames), and inside of pieces
if the whole frame is there. The caller decides what looks like a frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from kshare.errors import DecodeError
from kshare.protocol.frames import MAX_FRAME, SIZE_BYTES
from kshare.traffic.frame_buffer import FrameBuffer

_WINDOW = 64 * 1024
"""How many bytes are kept to search for a frame."""
_MAY_BEGIN_A_SIZE = re.compile(rb"[\x00-\x10]")

Judge = Callable[[memoryview, bool], bool]
"""Whether these bytes look like a frame; if the second argument is False, like the beginning of one."""


class ResyncingSplitter:
    def __init__(self, looks_right: Judge, *, is_searching: bool = False, max_frame: int = MAX_FRAME) -> None:
        self._looks_right = looks_right
        self._max_frame = max_frame
        self._splitter = FrameBuffer(max_frame)
        self._window = b""
        self._is_searching = is_searching

    def feed(self, data: bytes | memoryview) -> Iterable[memoryview]:
        """Whole frames, without their sizes."""
        if self._is_searching:
            found = self._search(bytes(data))
            return () if found is None else self._split(found)
        return () if self._splitter.is_but_more(data) else self._split(data)

    def _split(self, data: bytes | memoryview) -> Iterator[memoryview]:
        try:
            yield from self._splitter.feed(data)
        except DecodeError:
            self.lose()

    def lose(self) -> None:
        """Bytes are missing here: search for the next frame."""
        self._splitter = FrameBuffer(self._max_frame)
        self._window = b""
        self._is_searching = True

    def _search(self, piece: bytes) -> bytes | None:
        """Returns the bytes from the first frame on; None if there is none yet."""
        self._window += piece
        at = self._first_frame(len(self._window) - len(piece))
        if at is None:
            surplus = max(0, len(self._window) - _WINDOW)
            self._window = self._window[surplus:]
            return None
        rest, self._window = self._window[at:], b""
        self._is_searching = False
        return rest

    def _first_frame(self, seam: int) -> int | None:
        window = memoryview(self._window)
        for match in _MAY_BEGIN_A_SIZE.finditer(self._window):
            start = match.start() + SIZE_BYTES
            size = int.from_bytes(window[match.start() : start], "big", signed=True)
            if start > len(window) or not SIZE_BYTES <= size <= self._max_frame:
                continue
            is_whole = start + size <= len(window)
            may_begin = is_whole or match.start() == seam
            if may_begin and self._looks_right(window[start : start + size], is_whole):
                return match.start()
        return None
