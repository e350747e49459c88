"""The frames that leave through one stream: whole, one behind the other.

A frame leaves at once where none is before it. What the system won't take of it then, and all frames behind it, are
sent by `run`. Decides the order of frames, and which can be taken back. Never looks into them.
"""

from __future__ import annotations

from collections import deque

import anyio

from kshare.net.tcp import TcpStream


class Outbox:
    def __init__(self, stream: TcpStream) -> None:
        self._stream = stream
        self._frames: deque[bytes] = deque()
        """In their order; of the first a part may have left."""
        self._rest = memoryview(b"")
        """Of the first."""
        self._is_reserved = False
        self._held_back: list[bytes] = []
        """Of those who have to wait until `release`."""
        self._has_rest = anyio.Event()

    @property
    def is_free(self) -> bool:
        """What is put now leaves at once, or some of it."""
        return not self._frames and not self._is_reserved

    def put(self, frame: bytes, *, is_reserved: bool = False) -> None:
        """Raises what the system says if the stream is broken. `is_reserved`: by whom it is reserved for."""
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

    def take_back(self, frame: bytes) -> bool:
        """Whether it could be: nothing of it has left."""
        if frame in self._held_back:
            self._held_back.remove(frame)
            return True
        if frame in self._frames and frame is not self._frames[0]:
            self._frames.remove(frame)
            return True
        return False

    def is_half_way(self, frame: bytes) -> bool:
        return bool(self._frames) and frame is self._frames[0]

    def reserve(self) -> None:
        """From now on frames of others wait; those put before leave first."""
        self._is_reserved = True

    def release(self) -> None:
        self._is_reserved = False
        held_back, self._held_back = self._held_back, []
        for frame in held_back:
            self.put(frame)

    async def run(self) -> None:
        """Sends what couldn't leave at once; until it is cancelled, or the stream breaks."""
        while True:
            await self._has_rest.wait()
            while self._frames:
                await self._stream.send(self._rest)
                self._frames.popleft()
                self._rest = memoryview(self._frames[0] if self._frames else b"")
            self._has_rest = anyio.Event()
