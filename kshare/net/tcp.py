"""TCP with nothing between the socket and the buffers that are read into.

Fetched records come in frames of megabytes. A stream that hands out chunks copies each of them two or three times on
its way into a frame; here the kernel, or OpenSSL, writes where the frame will be read. Decides which of a name's
addresses is taken: each is tried a little after the one before, and the first to answer wins.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import sys

import anyio
from anyio.abc import AsyncResource
from anyio.lowlevel import checkpoint_if_cancelled

from kshare.net.room import new_room

STAGGER_S = 0.25
"""How long one address may be silent before the next is tried beside it."""
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What sockets that don't block raise, plain or with TLS: not now."""
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)


class TcpStream(AsyncResource):
    """Owns a connected socket that doesn't block; one with TLS has shaken hands."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        # With TLS nobody knows how many bytes on the wire those are that will be read.
        self._can_wake_late = sys.platform == "linux" and not isinstance(connected, ssl.SSLSocket)
        self._wakes_at = 1

    @property
    def socket(self) -> socket.socket:
        return self._socket

    @property
    def own(self) -> tuple[str, int]:
        """IP address and port on this side."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def peer(self) -> tuple[str, int]:
        """IP address and port on the other side; an OSError if it has gone."""
        host, port = self._socket.getpeername()[:2]
        return host, port

    async def receive_into(self, room: memoryview, *, wake_at: int = 1) -> int:
        """How many bytes were written into `room`; EndOfStream when there are no more.

        `wake_at`: so many are sure to come, so there is no need to wake up for fewer.
        """
        await checkpoint_if_cancelled()
        while True:
            try:
                count = self._socket.recv_into(room)
            except ssl.SSLWantWriteError:
                await anyio.wait_writable(self._socket)
                continue
            except WOULD_BLOCK:
                self._wake_at(wake_at)
                await anyio.wait_readable(self._socket)
                continue
            if not count:
                raise anyio.EndOfStream
            return count

    def _wake_at(self, count: int) -> None:
        if self._can_wake_late and count != self._wakes_at:
            # The system takes care that its own buffer has room for as many.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._wakes_at = count

    async def receive(self, max_bytes: int = 65536) -> bytes:
        room = new_room(max_bytes)
        count = await self.receive_into(room)
        return bytes(room[:count])

    async def send(self, item: bytes | memoryview) -> None:
        await checkpoint_if_cancelled()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except ssl.SSLWantReadError:
                await anyio.wait_readable(self._socket)
            except WOULD_BLOCK:
                await anyio.wait_writable(self._socket)

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()


async def connect(host: str, port: int) -> TcpStream:
    """Raises what the system says of the last address that failed."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    race = _Race()
    try:
        async with anyio.create_task_group() as tasks:
            for family, _, protocol, _, address in found:
                failed = anyio.Event()
                tasks.start_soon(race.run, family, protocol, address, failed, tasks.cancel_scope)
                with anyio.move_on_after(STAGGER_S):
                    await failed.wait()
    except BaseException:
        if race.winner is not None:
            race.winner.close()
        raise
    if race.winner is None:
        raise race.error or OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    return TcpStream(race.winner)


class _Race:
    def __init__(self) -> None:
        self.winner: socket.socket | None = None
        self.error: OSError | None = None

    async def run(
        self,
        family: int,
        protocol: int,
        address: tuple[object, ...],
        failed: anyio.Event,
        others: anyio.CancelScope,
    ) -> None:
        try:
            runner = await _connected(family, protocol, address)
        except OSError as error:
            self.error = error
            failed.set()
            return
        if self.winner is None:
            self.winner = runner
            others.cancel()
        else:
            runner.close()


async def _connected(family: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    runner = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        runner.setblocking(False)
        runner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = runner.connect_ex(address)
        if code not in _UNDER_WAY:
            raise OSError(code, os.strerror(code))
        await anyio.wait_writable(runner)
        code = runner.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
    except BaseException:
        runner.close()
        raise
    return runner
