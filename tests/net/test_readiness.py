"""`call_when_readable`: calls a function whenever data arrives, on both event loops, until the end of the stream."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kshare.net.readiness import call_when_readable
from kshare.net.tcp import TcpStream

pytestmark = pytest.mark.anyio
DEADLINE_S = 10.0


class Reader:
    """Reads a few bytes at a time, and raises what the stream raises."""

    def __init__(self, stream: TcpStream) -> None:
        self.got = bytearray()
        self.has_come = anyio.Event()
        self._stream = stream

    def read(self) -> None:
        buffer = memoryview(bytearray(3))
        count = self._stream.receive_now(buffer)
        if count is not None:
            self.got += buffer[:count]
            self.has_come.set()
            self.has_come = anyio.Event()  # the callback may use anyio as tasks do
            assert anyio.current_time() > 0

    async def until(self, expected: bytes) -> None:
        while self.got != expected:
            await self.has_come.wait()


@asynccontextmanager
async def reading(stream: TcpStream) -> AsyncIterator[Reader]:
    """Call the reader whenever data arrives, for as long as the block lasts."""
    reader = Reader(stream)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_when_readable, stream, reader.read)
            yield reader
            tasks.cancel_scope.cancel()


async def test_called_for_all_data_until_the_end(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, peer = pair
    reader = Reader(stream)
    peer.sendall(b"before anybody listened")

    async def end() -> None:
        await reader.until(b"before anybody listened")
        peer.sendall(b", and after")
        await reader.until(b"before anybody listened, and after")
        peer.close()

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end)
            with pytest.raises(anyio.EndOfStream):
                await call_when_readable(stream, reader.read)


async def test_cancelled_call_leaves_the_stream_to_others(
    pair: tuple[TcpStream, socket.socket],
) -> None:
    stream, peer = pair
    reader = Reader(stream)
    with anyio.fail_after(DEADLINE_S):
        for steps in range(6):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call_when_readable, stream, reader.read)
                for _ in range(steps):
                    await checkpoint()
                tasks.cancel_scope.cancel()
        peer.sendall(b"late")
        for _ in range(5):
            await checkpoint()
        assert not reader.got
        await anyio.wait_readable(stream.socket)


async def test_exception_during_cancellation_is_dropped(
    pair: tuple[TcpStream, socket.socket], anyio_backend: str
) -> None:
    stream, peer = pair
    complaints: list[object] = []
    if anyio_backend == "asyncio":
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:

            def read() -> None:
                tasks.cancel_scope.cancel()
                raise ValueError("too late")

            async def listen() -> None:
                with suppress(ValueError):  # raised if the cancellation isn't delivered yet
                    await call_when_readable(stream, read)

            tasks.start_soon(listen)
            peer.sendall(b"x")
    await checkpoint()
    assert not complaints


class Hoard(TcpStream):
    """Like TLS: takes everything from the socket, and hands out parts."""

    held = b""

    def receive_now(self, buffer: memoryview) -> int | None:
        if not self.held:
            whole = memoryview(bytearray(100))
            count = super().receive_now(whole)
            if count is None:
                return None
            self.held = bytes(whole[:count])
        part, self.held = self.held[: len(buffer)], self.held[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    @property
    def has_buffered_bytes(self) -> bool:
        return bool(self.held)


async def test_called_again_for_buffered_bytes(
    pair: tuple[TcpStream, socket.socket],
) -> None:
    plain, peer = pair
    async with reading(Hoard(plain.socket)) as reader:
        peer.sendall(b"in one piece")
        await reader.until(b"in one piece")


async def test_event_loop_without_add_reader(
    pair: tuple[TcpStream, socket.socket], monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    stream, peer = pair
    if anyio_backend == "asyncio":
        refused: list[object] = []

        def refuse(*arguments: object) -> None:
            refused.append(arguments)
            monkeypatch.undo()
            raise NotImplementedError

        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
    async with reading(stream) as reader:
        peer.sendall(b"anyway")
        await reader.until(b"anyway")
    assert anyio_backend == "trio" or refused
