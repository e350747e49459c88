"""Plain TCP: choice of address, frames of any size, cancellation and closing."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from kshare.errors import DecodeError
from kshare.net import tcp
from kshare.net.frame_reader import CHUNK, FrameReader
from kshare.net.tcp import TcpStream

pytestmark = pytest.mark.anyio
DEADLINE_S = 10.0
LIMIT = 10_000_000


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


async def next_frames(stream: TcpStream, reader: FrameReader) -> Sequence[memoryview]:
    while not (frames := reader.read()):
        await anyio.wait_readable(stream.socket)
    return frames


def resolving_to(*addresses: tuple[str, int]) -> object:
    async def getaddrinfo(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]

    return getaddrinfo


async def test_address_that_accepts_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as open_one, listening() as closed_one:
        gone = closed_one.getsockname()
        closed_one.close()
        monkeypatch.setattr(anyio, "getaddrinfo", resolving_to(gone, gone, open_one.getsockname()))
        with anyio.fail_after(DEADLINE_S):
            stream = await tcp.connect("any", 1)
            await stream.aclose()


async def test_silent_address_does_not_delay_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    # 192.0.2.0/24 is reserved for documentation: nothing responses there.
    with listening() as open_one:
        monkeypatch.setattr(anyio, "getaddrinfo", resolving_to(("192.0.2.1", 9), open_one.getsockname()))
        with anyio.fail_after(DEADLINE_S):
            stream = await tcp.connect("any", 1)
            await stream.aclose()


async def test_all_addresses_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as closed_one:
        gone = closed_one.getsockname()
    monkeypatch.setattr(anyio, "getaddrinfo", resolving_to(gone, gone))
    with anyio.fail_after(DEADLINE_S), pytest.raises(ConnectionRefusedError):
        await tcp.connect("any", 1)


async def test_frames_of_all_sizes_are_received_whole(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, peer = pair
    random = Random(4)
    sizes = [0, 1, 3, CHUNK - 4, CHUNK, CHUNK + 1, 16 * 1024, 1_000_000, 7, 300_000, 5, 0]
    frames = [random.randbytes(size) for size in sizes]
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    heard = bytearray()
    reader = FrameReader(stream, LIMIT, heard.extend)

    def send() -> None:
        at = 0
        while at < len(data):
            size = random.choice([1, 3, 100, 5_000, 100_000])
            peer.sendall(data[at : at + size])
            at += size

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, send)
            got: list[bytes] = []
            while len(got) < len(frames):
                got += map(bytes, await next_frames(stream, reader))
    assert got == frames
    assert heard == data


async def test_small_frame_after_a_large_one_wakes_the_reader(
    pair: tuple[TcpStream, socket.socket],
) -> None:
    """Nothing is read in between: the read threshold for the large frame must not outlive it."""
    stream, peer = pair
    large = b"l" * 300_000
    half = len(large) // 2
    heard = bytearray()
    reader = FrameReader(stream, LIMIT, heard.extend)

    async def read_large() -> None:
        assert [bytes(frame) for frame in await next_frames(stream, reader)] == [large]

    with anyio.fail_after(DEADLINE_S):
        for _ in range(3):
            heard.clear()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_large)
                peer.sendall(len(large).to_bytes(4, "big") + large[:half])
                # The threshold is only set when the reader has to wait for the rest.
                while len(heard) < half:
                    await anyio.lowlevel.checkpoint()
                peer.sendall(large[half:])
            peer.sendall(b"\x00\x00\x00\x05small")
            await anyio.wait_readable(stream.socket)
            assert [bytes(frame) for frame in reader.read()] == [b"small"]


async def test_too_large_frame_is_refused_before_it_is_read(
    pair: tuple[TcpStream, socket.socket],
) -> None:
    stream, peer = pair
    peer.sendall((LIMIT + 1).to_bytes(4, "big"))
    with anyio.fail_after(DEADLINE_S), pytest.raises(DecodeError, match="10000000 are allowed"):
        await next_frames(stream, FrameReader(stream, LIMIT, lambda _: None))


async def test_stream_that_ends_within_a_frame(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, peer = pair
    peer.sendall((100_000).to_bytes(4, "big") + b"x" * 50_000)
    peer.close()
    with anyio.fail_after(DEADLINE_S), pytest.raises(anyio.EndOfStream):
        await next_frames(stream, FrameReader(stream, LIMIT, lambda _: None))


@pytest.mark.parametrize("is_begun", [False, True])
async def test_more_is_sent_than_the_system_accepts_at_once(
    pair: tuple[TcpStream, socket.socket], is_begun: bool
) -> None:
    """Also if a caller that can't wait has sent the first part."""
    stream, peer = pair
    data = Random(1).randbytes(5_000_000)
    received = bytearray()

    def receive() -> None:
        while len(received) < len(data):
            received.extend(peer.recv(1 << 20))

    rest = memoryview(data)
    if is_begun:
        rest = stream.send_now(data)
        assert 0 < len(rest) < len(data)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, receive)
            await stream.send(rest)
    assert received == data
    assert not stream.send_now(b"")


async def test_closing_wakes_waiting_readers(pair: tuple[TcpStream, socket.socket]) -> None:
    stream, _ = pair
    failures: list[Exception] = []

    async def wait() -> None:
        try:
            await anyio.wait_readable(stream.socket)
        except (anyio.ClosedResourceError, OSError) as error:
            failures.append(error)

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            await stream.aclose()
    assert len(failures) == 1
    await stream.aclose()


async def test_read_threshold_wakes_once_and_is_lowered_afterwards(
    pair: tuple[TcpStream, socket.socket],
) -> None:
    """The threshold for one wait must not outlive it."""
    stream, peer = pair
    buffer = memoryview(bytearray(60_000))
    part = len(buffer) // 3

    async def filled() -> None:
        at = wakes = 0
        assert stream.receive_now(buffer) is None
        while at < len(buffer):
            stream.set_read_threshold(len(buffer) - at)
            await anyio.wait_readable(stream.socket)
            wakes += 1
            at += stream.receive_now(buffer[at:]) or 0
        assert wakes == 1 or sys.platform != "linux", "on other systems each part wakes the reader"

    async def woken_by_little() -> None:
        stream.set_read_threshold(1)
        await anyio.wait_readable(stream.socket)
        assert stream.receive_now(buffer) == 1

    async def woken_by_the_end() -> None:
        stream.set_read_threshold(len(buffer))
        await anyio.wait_readable(stream.socket)
        with pytest.raises(anyio.EndOfStream):
            stream.receive_now(buffer)

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(filled)
            for _ in range(3):
                await anyio.wait_all_tasks_blocked()
                await anyio.sleep(0.02)
                peer.sendall(b"x" * part)
        assert buffer == b"x" * len(buffer)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(woken_by_little)
            await anyio.wait_all_tasks_blocked()
            peer.sendall(b"y")
        assert buffer[0] == ord("y")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(woken_by_the_end)
            await anyio.wait_all_tasks_blocked()
            peer.close()
