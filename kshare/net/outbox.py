"""The send queue of one stream: frames are sent whole and in order.

A frame is sent at once if the queue is empty. What the system doesn't accept then, and all frames after it, are sent by
`run`. Decides the order of frames and which can still be withdrawn. Doesn't interpret them.
"""

from __future__ import annotations

from collections import deque

import anyio

from kshare.net.stream import Stream


class Outbox:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._frames: deque[bytes] = deque()
        """In order; part of the first may have been sent."""
        self._rest = memoryview(b"")
        """The unsent part of the first."""
        self._is_reserved = False
        self._held_back: list[bytes] = []
        """Frames that have to wait until `release`."""
        self._has_rest = anyio.Event()

    @property
    def is_free(self) -> bool:
        """Whether a frame would be sent at once, or at least part of it."""
        return not self._frames and not self._is_reserved

    def put(self, frame: bytes, *, is_reserved: bool = False) -> None:
        """Raises OSError if the stream is broken. `is_reserved`: sent by the holder of the reservation."""
        if self._is_reserved and not is_reserved:
            self._held_back.append(frame)
            return
        self._frames.append(frame)
        if len(self._frames) == 1:
            self._rest = self._stream.send_now(frame)
            if self._rest:
                self._has_rest.set()
            else:
                self._frames.popleft()

    def withdraw(self, frame: bytes) -> bool:
        """Removes a frame; False if some of it has already been sent."""
        if frame in self._held_back:
            self._held_back.remove(frame)
            return True
        if frame in self._frames and frame is not self._frames[0]:
            self._frames.remove(frame)
            return True
        return False

    def is_partly_sent(self, frame: bytes) -> bool:
        return bool(self._frames) and frame is self._frames[0]

    def reserve(self) -> None:
        """From now on frames of others wait; those already queued are sent first."""
        self._is_reserved = True

    def release(self) -> None:
        self._is_reserved = False
        held_back, self._held_back = self._held_back, []
        for frame in held_back:
            self.put(frame)

    async def run(self) -> None:
        """Sends what couldn't be sent at once, until it is cancelled or the stream breaks."""
        while True:
            await self._has_rest.wait()
            while self._frames:
                await self._stream.send(self._rest)
                self._frames.popleft()
                self._rest = memoryview(self._frames[0] if self._frames else b"")
            self._has_rest = anyio.Event()
