"""TCP streams that read directly into the caller's buffers.

Fetched records arrive in frames of megabytes. A stream that returns chunks copies each two or three times on its way
into a frame; here the kernel, or OpenSSL, writes into the frame's memory. Also decides which of a host name's addresses
to use: each is tried a little after the previous one, and the first one that connects is used.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import sys
from collections.abc import Callable
from contextvars import ContextVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from kshare.net.readiness import call_when_readable
from kshare.net.stream import Stream

STAGGER_S = 0.25
"""How long to wait for one address before the next one is tried, too."""
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What non-blocking sockets raise, plain or with TLS, when they would block."""
_IN_PROGRESS = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)


class TcpStream(Stream):
    """Owns a connected, non-blocking socket; with TLS, the handshake is done."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        # With TLS the number of bytes on the wire isn't known.
        self._has_read_threshold = sys.platform == "linux" and not isinstance(connected, ssl.SSLSocket)
        self._read_threshold = 1

    @property
    def socket(self) -> socket.socket:
        return self._socket

    @property
    def own(self) -> tuple[str, int]:
        """Local IP address and port."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def peer(self) -> tuple[str, int]:
        """Remote IP address and port; raises OSError if the peer has disconnected."""
        host, port = self._socket.getpeername()[:2]
        return host, port

    def receive_now(self, buffer: memoryview) -> int | None:
        """Returns how many bytes were written into `buffer`; None if there are none for now. May raise EndOfStream."""
        try:
            count = self._socket.recv_into(buffer)
        except WOULD_BLOCK:
            return None
        if not count:
            raise anyio.EndOfStream
        return count

    def set_read_threshold(self, count: int) -> None:
        """Makes the socket readable only when `count` bytes have arrived, which must be certain to arrive."""
        if self._has_read_threshold and count != self._read_threshold:
            # The system makes sure that its own buffer is large enough.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._read_threshold = count

    @property
    def has_buffered_bytes(self) -> bool:
        """Whether TLS has decrypted bytes that weren't read yet: the socket doesn't become readable for these."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def send_now(self, item: bytes | memoryview) -> memoryview:
        """Sends what the socket accepts now, and returns the rest."""
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except WOULD_BLOCK:
                break
        return rest

    async def send(self, item: bytes | memoryview) -> None:
        await checkpoint_if_cancelled()
        rest = self.send_now(item)
        while rest:
            # If TLS has to read first, this loops; the task that reads from the stream runs in between.
            await anyio.wait_writable(self._socket)
            rest = self.send_now(rest)

    async def call_when_readable(self, on_ready: Callable[[], None]) -> None:
        await call_when_readable(self, on_ready)

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()


async def connect(host: str, port: int) -> TcpStream:
    """Raises the OSError of the last address that failed."""
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


class Network:
    """That of the system."""

    async def connect(self, host: str, port: int) -> Stream:
        """Raises OSError."""
        return await connect(host, port)


network: ContextVar[Network] = ContextVar("kshare network", default=Network())  # noqa: B039  it has no state
"""That of the current task."""


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
        if code not in _IN_PROGRESS:
            raise OSError(code, os.strerror(code))
        await anyio.wait_writable(runner)
        code = runner.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
    except BaseException:
        runner.close()
        raise
    return runner
