"""What leaves through one stream: requests whole, one behind the other.

Decides whose turn it is. Whoever stops in the middle of a request leaves a stream that is of no use to anybody.
"""

from __future__ import annotations

import anyio

from kshare.net.tcp import TcpStream


class Outbox:
    def __init__(self, stream: TcpStream) -> None:
        self.turn = anyio.Lock(fast_acquire=True)
        """Nobody else sends while one has it."""
        self._stream = stream
        self._rest = memoryview(b"")
        """Of a request that was begun by `begin`."""

    @property
    def is_free(self) -> bool:
        """It's nobody's turn, and nothing is half-way."""
        return not self._rest and not self.turn.locked()

    def begin(self, frame: bytes) -> bool:
        """Whether all of it could leave at once; if not, `finish` it. Only while this is free."""
        self._rest = self._stream.send_now(frame)
        return not self._rest

    async def send(self, frame: bytes) -> None:
        """In one's turn."""
        await self.finish()
        await self._stream.send(frame)

    async def finish(self) -> None:
        """In one's turn, too: what somebody else has begun."""
        if self._rest:
            rest, self._rest = self._rest, memoryview(b"")
            await self._stream.send(rest)
