"""One connection of a client, passed on to a broker, both ways.

Decides when something is passed on: at once, before anybody looks at it. The watcher sees what the broker said, not
what the client was told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import time
from typing import Protocol

import anyio
from anyio.abc import ByteStream

from kshare.errors import DecodeError
from kshare.net.tcp import TcpStream
from kshare.trace.answers import AnswerStream, Move
from kshare.trace.backlog import Backlog
from kshare.trace.heads import Asked, HeadReader

_CHUNK = 256 * 1024
_TLS_HELLO = b"\x16\x03"

Endpoint = tuple[str, int]


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
        backlog: Backlog,
    ) -> None:
        self._client = client
        self._server = server
        self._name = name
        self._tap = tap
        self._move = move
        self._note = note
        self._backlog = backlog
        self._heads = HeadReader()
        self._asked: dict[int, Asked] = {}
        self._ended_by_client = True

    async def run(self) -> None:
        """Until either side hangs up."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_end, self._pass_requests, tasks.cancel_scope, True)
                tasks.start_soon(self._until_end, self._pass_answers, tasks.cancel_scope, False)
        finally:
            self._backlog.look()
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
            self._backlog.add(partial(self._tap.client_sends, chunk, time()))
            for asked in self._heads.feed(chunk):
                self._asked[asked.correlation_id] = asked
            await self._server.send(chunk)
            self._backlog.look()
            chunk = await self._client.receive(_CHUNK)

    async def _pass_answers(self) -> None:
        answers = AnswerStream(self._asked, self._move)
        while True:
            chunk = await _receive(self._server)
            self._backlog.add(partial(self._tap.server_sends, chunk, time()))
            async for piece in answers.feed(chunk):
                await self._client.send(piece)


async def _receive(stream: ByteStream) -> bytes | memoryview:
    if not isinstance(stream, TcpStream):
        return await stream.receive(_CHUNK)
    room = memoryview(bytearray(_CHUNK))
    return room[: await stream.receive_into(room)]
