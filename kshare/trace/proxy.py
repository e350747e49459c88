"""The proxy: a listener for each broker of the cluster, created when its address first appears.

Decides which port stands for which broker: the ports after the first one that are free.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from contextlib import closing, suppress
from time import time

import anyio
from anyio.abc import TaskGroup, TaskStatus

from kshare.errors import ConfigError, KshareError
from kshare.net.addresses import Address, format_address
from kshare.net.settings import NetSettings
from kshare.net.tcp import TcpStream
from kshare.trace.relay import Endpoint, ProxyObserver, Relay
from kshare.trace.socket_loop import SocketLoop
from kshare.trace.upstream import Upstream

_BACKLOG = 128
_PORTS_TRIED = 200
_PAUSE_S = 0.1
_LAST_PORT = 65535


class Proxy:
    def __init__(self, settings: NetSettings, listen: Address, watcher: ProxyObserver) -> None:
        self._settings = settings
        self._listen = listen
        self._watcher = watcher
        self._upstream = Upstream(settings)
        self._ports: dict[Address, int] = {}
        self._first_port = listen[1]
        self._pump = SocketLoop()
        self._tasks: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[Address] = anyio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled. Reports the address that it listens on as its task status."""
        bootstrap = self._settings.bootstrap
        listener = self._bind(self._listen[1])
        self._first_port = listener.getsockname()[1]
        if len(bootstrap) == 1:
            self._ports[bootstrap[0]] = self._first_port
        with closing(self._pump):
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._pump.run)
                self._tasks.start_soon(self._serve, listener, bootstrap)
                task_status.started((self._listen[0], self._first_port))

    def _bind(self, port: int) -> socket.socket:
        host = self._listen[0]
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise ConfigError(f"can't listen at {format_address((host, port))}: {error.strerror}") from None
        listener.setblocking(False)
        return listener

    def _port_for(self, address: Address) -> int:
        """The port here that stands for this broker."""
        if address not in self._ports:
            listener = self._bind_behind()
            self._ports[address] = listener.getsockname()[1]
            assert self._tasks is not None, "a client is connected"
            self._tasks.start_soon(self._serve, listener, [address])
        return self._ports[address]

    def _bind_behind(self) -> socket.socket:
        """Predictable ports, so that they can be opened in firewalls and containers."""
        first = self._first_port + 1
        for port in range(first, min(first + _PORTS_TRIED, _LAST_PORT)):
            if port not in self._ports.values():
                with suppress(ConfigError):
                    return self._bind(port)
        return self._bind(0)

    async def _serve(self, listener: socket.socket, addresses: Sequence[Address]) -> None:
        with listener:
            while True:
                try:
                    accepted, _ = listener.accept()
                except BlockingIOError:
                    await anyio.wait_readable(listener)
                    continue
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED):
                        raise
                    await anyio.sleep(_PAUSE_S)
                    continue
                assert self._tasks is not None
                self._tasks.start_soon(self._connect, accepted, addresses)

    async def _connect(self, accepted: socket.socket, addresses: Sequence[Address]) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with TcpStream(accepted) as client:
            try:
                client_address, here = client.peer, client.own[0]
                server, address, where = await self._upstream.open(addresses)
            except OSError:
                return  # the client has disconnected already
            except KshareError as error:
                self._watcher.note(str(error))
                return

            def move(host: str, port: int) -> Endpoint:
                return here, self._port_for((host, port))

            async with server:
                name = format_address(address)
                tap = self._watcher.opened(client_address, where, name, time())
                sockets = client.socket, server.socket
                await Relay(*sockets, name, tap, move, self._watcher.note, self._pump).run()
