"""The proxy between a slow client and a slow server: all bytes arrive, in order, with TLS and without."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import anyio
import pytest
import trustme
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSStream

from kshare.net.settings import NetSettings, Security
from kshare.trace import Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.lengthy]

DEADLINE_S = 60.0
HOST = "localhost"
FAST, SLOW = 0.0, 0.002
"""Pauses between reads, in seconds."""


class Witness:
    """An observer, and the tap of its only connection."""

    def __init__(self) -> None:
        self.asked, self.responded = bytearray(), bytearray()
        self.ended_by_client: bool | None = None
        self.ended = anyio.Event()
        self.notes: list[str] = []

    def opened(self, client: tuple[str, int], server: tuple[str, int], name: str, time: float) -> Witness:
        return self

    def note(self, text: str) -> None:
        self.notes.append(text)

    def client_sends(self, data: memoryview, time: float) -> None:
        self.asked += data

    def server_sends(self, data: memoryview, time: float) -> None:
        assert self.asked, "a response was seen before its request"
        self.responded += data

    def closed(self, time: float, *, by_client: bool) -> None:
        self.ended_by_client = by_client
        self.ended.set()


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def security(request: pytest.FixtureRequest) -> tuple[Security, ssl.SSLContext | None]:
    if not request.param:
        return Security(), None
    authority = trustme.CA()
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(theirs)
    return Security(tls=ours), theirs


@asynccontextmanager
async def between(
    security: tuple[Security, ssl.SSLContext | None], serve: Callable[[ByteStream], object], witness: Witness
) -> AsyncIterator[SocketStream]:
    """A client connected through a proxy to a server that runs `serve`."""
    ours, theirs = security

    async def handle(stream: SocketStream) -> None:
        async with stream:
            secured: ByteStream = stream
            if theirs is not None:
                secured = await TLSStream.wrap(stream, server_side=True, ssl_context=theirs)
            await serve(secured)  # type: ignore[misc]

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    settings = NetSettings(bootstrap=((HOST, port),), security=ours)
    with anyio.fail_after(DEADLINE_S):
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, handle)
            host, own_port = await tasks.start(Proxy(settings, ("127.0.0.1", 0), witness).run)
            async with await anyio.connect_tcp(host, own_port) as client:
                yield client
            tasks.cancel_scope.cancel()


def frame(number: int, size: int) -> bytes:
    """A request with an unknown API key. Only its correlation id matters."""
    body = Random(size).randbytes(size)
    return (len(body) + 8).to_bytes(4, "big") + b"\x03\xe7\0\0" + number.to_bytes(4, "big") + body


def response(number: int, size: int) -> bytes:
    body = Random(size).randbytes(size)
    return (len(body) + 4).to_bytes(4, "big") + number.to_bytes(4, "big") + body


async def drink(stream: ByteStream, wanted: int, pause_s: float) -> bytes:
    found = bytearray()
    while len(found) < wanted:
        found += await stream.receive(min(65536, wanted - len(found)))
        await anyio.sleep(pause_s)
    return bytes(found)


@pytest.mark.parametrize(("client_pause", "server_pause"), [(FAST, FAST), (SLOW, FAST), (FAST, SLOW)])
async def test_all_bytes_arrive_whichever_side_is_slow(
    security: tuple[Security, ssl.SSLContext | None], client_pause: float, server_pause: float
) -> None:
    """More bytes than all buffers hold, in both directions at once."""
    asked = b"".join(frame(number, 4_000_000) for number in range(3)) + frame(3, 0)
    responses = b"".join(response(number, 3_000_000) for number in range(4))
    got: list[bytes] = []

    async def serve(stream: ByteStream) -> None:
        async with anyio.create_task_group() as tasks:
            got.append(await drink(stream, 100, FAST))
            tasks.start_soon(stream.send, responses)
            got.append(await drink(stream, len(asked) - 100, server_pause))

    witness = Witness()
    async with between(security, serve, witness) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.send, asked)
            assert await drink(client, len(responses), client_pause) == responses
        await witness.ended.wait()
    assert b"".join(got) == asked == witness.asked
    assert witness.responded == responses
    assert witness.ended_by_client is False
    assert not witness.notes


async def test_one_request_at_a_time(security: tuple[Security, ssl.SSLContext | None]) -> None:
    async def serve(stream: ByteStream) -> None:
        reader = BufferedByteReceiveStream(stream)
        for number in range(20):
            size = int.from_bytes(await reader.receive_exactly(4), "big")
            await reader.receive_exactly(size)
            await stream.send(response(number, number * 1000))
        await anyio.sleep_forever()

    witness = Witness()
    async with between(security, serve, witness) as client:
        reader = BufferedByteReceiveStream(client)
        for number in range(20):
            await client.send(frame(number, 10))
            expected = response(number, number * 1000)
            assert await reader.receive_exactly(len(expected)) == expected
        await client.aclose()
        await witness.ended.wait()
    assert witness.ended_by_client is True
    assert witness.responded == b"".join(response(number, number * 1000) for number in range(20))


async def test_invalid_response_closes_the_connection_with_a_note(
    security: tuple[Security, ssl.SSLContext | None],
) -> None:
    async def serve(stream: ByteStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await anyio.sleep_forever()

    witness = Witness()
    async with between(security, serve, witness) as client:
        await client.send(frame(0, 10))
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await client.receive()
        await witness.ended.wait()
    assert [note for note in witness.notes if "an invalid Kafka response" in note]
