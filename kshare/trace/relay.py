"""One connection of a client, passed on to a broker: requests as they come, answers frame by frame.

Decides when something is passed on: at once, before anybody looks at it. Answers with addresses in them are changed
first. The watcher sees what the broker said, not what the client was told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from time import time
from typing import Protocol

import anyio
from anyio.abc import ByteStream

from kshare.errors import DecodeError
from kshare.net.frame_reader import FrameReader
from kshare.net.tcp import TcpStream
from kshare.protocol.frames import MAX_FRAME
from kshare.protocol.messages import ApiVersionsResponse
from kshare.trace.addresses import decode_if_addressed, encode, limit_versions, places
from kshare.trace.heads import Asked, HeadReader

_CHUNK = 256 * 1024
_COPIED = 64 * 1024
"""Up to here size and frame are put together into one packet; above, the copy would cost more."""
_TLS_HELLO = b"\x16\x03"

Endpoint = tuple[str, int]
Move = Callable[[str, int], Awaitable[Endpoint]]
"""A broker's address → where clients find it here."""


class Tap(Protocol):
    """Gets what one connection carries, behind its back."""

    def client_sends(self, data: bytes | memoryview, time: float) -> None: ...

    def server_sends(self, data: bytes | memoryview, time: float) -> None: ...

    def closed(self, time: float, *, by_client: bool) -> None: ...


class Watcher(Protocol):
    """Learns of connections. What it raises ends the proxy."""

    def opened(self, client: Endpoint, server: Endpoint, name: str, time: float) -> Tap:
        """`server` is an IP address; `name` is how the cluster calls it."""

    def note(self, text: str) -> None:
        """Something went wrong that isn't on the wire."""


class Relay:
    def __init__(
        self,
        client: TcpStream,
        server: ByteStream,
        name: str,
        tap: Tap,
        move: Move,
        note: Callable[[str], None],
    ) -> None:
        self._client = client
        self._server = server
        self._name = name
        self._tap = tap
        self._move = move
        self._note = note
        self._heads = HeadReader()
        self._asked: dict[int, Asked] = {}
        self._seen: deque[tuple[bool, bytes | memoryview, float]] = deque()
        self._ended_by_client = True

    async def run(self) -> None:
        """Until either side hangs up."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_end, self._pass_requests, tasks.cancel_scope, True)
                tasks.start_soon(self._until_end, self._pass_answers, tasks.cancel_scope, False)
        finally:
            self._look()
        self._tap.closed(time(), by_client=self._ended_by_client)

    async def _until_end(
        self, run: Callable[[], Awaitable[None]], both: anyio.CancelScope, is_client: bool
    ) -> None:
        try:
            await run()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        except DecodeError as error:
            self._note(
                f"{self._name} answers what is no answer of Kafka's, so the connection was closed: {error}"
            )
        if not both.cancel_called:
            self._ended_by_client = is_client
            both.cancel()

    async def _pass_requests(self) -> None:
        chunk = await self._client.receive(_CHUNK)
        if chunk.startswith(_TLS_HELLO):
            self._note(
                "a client speaks TLS: have it speak plainly to this proxy, and give TLS to the cluster by "
                "--command-config"
            )
            return
        while True:
            self._seen.append((True, chunk, time()))
            for asked in self._heads.feed(chunk):
                self._asked[asked.correlation_id] = asked
            await self._server.send(chunk)
            self._look()
            chunk = await self._client.receive(_CHUNK)

    async def _pass_answers(self) -> None:
        frames = FrameReader(self._server, MAX_FRAME, lambda said: None)
        while True:
            frame = await frames.next_frame()
            now = time()
            self._seen.append((False, _size(frame), now))
            self._seen.append((False, frame, now))
            asked = self._asked.pop(int.from_bytes(frame[:4], "big", signed=True), None)
            changed = await self._changed(asked, frame) if asked else None
            await self._send_answer(frame if changed is None else memoryview(changed))
            self._look()

    async def _send_answer(self, frame: memoryview) -> None:
        if len(frame) <= _COPIED:
            await self._client.send(_size(frame) + bytes(frame))
        else:
            await self._client.send(_size(frame))
            await self._client.send(frame)

    async def _changed(self, asked: Asked, frame: memoryview) -> bytes | None:
        answer = decode_if_addressed(asked.api_key, asked.version, frame)
        if answer is None:
            return None
        if isinstance(answer, ApiVersionsResponse):
            return encode(answer, asked.version, frame) if limit_versions(answer) else None
        found = list(places(answer))
        for place in found:
            place.host, place.port = await self._move(place.host, place.port)
        return encode(answer, asked.version, frame) if found else None

    def _look(self) -> None:
        """What was passed on, in the order in which it came: no answer before its question."""
        while self._seen:
            is_request, data, at = self._seen.popleft()
            if is_request:
                self._tap.client_sends(data, at)
            else:
                self._tap.server_sends(data, at)


def _size(frame: memoryview) -> bytes:
    return len(frame).to_bytes(4, "big")
