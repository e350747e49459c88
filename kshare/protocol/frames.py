"""Frames: four bytes of size, a header, a body. Splits a byte stream into frames, and decides header versions.

Sizes above a limit are refused, and memory is allocated as bytes arrive, not by the size in the frame. Doesn't know
messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from kshare.errors import DecodeError, FrameTooLarge

__all__ = ["MAX_FRAME", "FrameSplitter"]

SIZE_BYTES = 4
MAX_FRAME = 256 * 1024 * 1024
"""The default limit of a frame's size: more than twice a broker's response to a fetch of 100 MB."""

API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7


def request_header_version(api_key: int, version: int, is_flexible: bool) -> int:
    """The header version of a request. Only ControlledShutdown version 0 has header version 0."""
    if api_key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if is_flexible else 1


def response_header_version(api_key: int, is_flexible: bool) -> int:
    """The header version of a response. ApiVersions uses the oldest: clients don't know the broker's versions yet."""
    return 1 if is_flexible and api_key != API_VERSIONS else 0


def begin_frame() -> bytearray:
    """A frame to append header and body to; `end_frame` fills in the size."""
    return bytearray(SIZE_BYTES)


def end_frame(frame: bytearray) -> bytearray:
    struct.pack_into(">i", frame, 0, len(frame) - SIZE_BYTES)
    return frame


class FrameSplitter:
    """Splits one direction of a connection into whole frames, without their size."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._parts: list[bytes | memoryview] = []
        self._held = 0
        self._wanted: int | None = None
        self._consumed = 0
        self._whole = memoryview(b"")

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream could end here without truncating a frame."""
        return not self._held and self._wanted is None

    def feed(self, chunk: bytes | memoryview) -> Iterator[memoryview]:
        """The frames that `chunk` completes. A frame within a single chunk is a view of it, not a copy."""
        rest = memoryview(chunk)
        while True:
            needed = SIZE_BYTES if self._wanted is None else self._wanted
            if self._held + len(rest) < needed:
                if len(rest):
                    self._keep(rest)
                return
            lacking = needed - self._held
            piece, rest = rest[:lacking], rest[lacking:]
            if self._held:
                piece = self._join(piece)
            if self._wanted is None:
                self._wanted = self._size(piece)
            else:
                self._consumed += SIZE_BYTES + self._wanted
                self._wanted = None
                yield piece

    @property
    def missing(self) -> int:
        """How many bytes of an incomplete frame are missing."""
        return 0 if self._wanted is None else self._wanted - self._held

    def begin_rest(self, new_buffer: Callable[[int], memoryview]) -> memoryview:
        """A buffer for the missing bytes, to be filled before `end_rest`. `new_buffer` allocates the whole frame."""
        assert self._wanted is not None, "a frame is begun"
        self._whole = new_buffer(self._wanted)
        at = 0
        for part in self._parts:
            self._whole[at : at + len(part)] = part
            at += len(part)
        return self._whole[at:]

    def end_rest(self) -> memoryview:
        """The frame, after its missing bytes have been written."""
        assert self._wanted is not None, "a frame is begun"
        self._parts.clear()
        self._held = 0
        self._consumed += SIZE_BYTES + self._wanted
        self._wanted = None
        return self._whole.toreadonly()

    def _keep(self, part: memoryview) -> None:
        self._parts.append(part)
        self._held += len(part)

    def _join(self, last: memoryview) -> memoryview:
        frame = memoryview(b"".join([*self._parts, last]))
        self._parts.clear()
        self._held = 0
        return frame

    def _size(self, piece: memoryview) -> int:
        size = int.from_bytes(piece, "big", signed=True)
        if size < 0:
            raise DecodeError(
                "size", self._consumed, f"a frame of {size} bytes announced, {self._limit} are allowed"
            )
        if size > self._limit:
            raise FrameTooLarge(self._consumed, size, self._limit)
        return size
