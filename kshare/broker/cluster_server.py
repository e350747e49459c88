"""Runs an embedded cluster in the current event loop, with sockets that clients can connect to.

`request_loop` handles the requests of each connection.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketStream, TaskGroup
from anyio.streams.tls import TLSStream

from kshare.broker.broker import Broker
from kshare.broker.clock import SystemClock
from kshare.broker.cluster import Node
from kshare.broker.connection import ClientConnection
from kshare.broker.request_loop import RequestLoop
from kshare.broker.security import Security
from kshare.summary_log import INTERVAL_S

Listen = Callable[[str, int], Awaitable[Listener[SocketStream]]]

_numbers = count(1)
_HANDSHAKE_S = 10.0


class NodeServer:
    """One node's listener and connections."""

    def __init__(
        self, broker: Broker, node: Node, security: Security, listener: Listener[SocketStream]
    ) -> None:
        self._broker = broker
        self._node = node
        self._security = security
        self._listener = listener
        self._scope = anyio.CancelScope()
        self._streams: dict[ClientConnection, ByteStream] = {}

    async def serve(self) -> None:
        """Accept connections until `stop_listening`."""
        with self._scope:
            async with self._listener, anyio.create_task_group() as tasks:
                # The listener is closed meanwhile: cancelling alone would leave its port open for a moment.
                with suppress(anyio.ClosedResourceError):
                    await self._listener.serve(self._serve_client, tasks)

    async def stop_listening(self) -> None:
        self._scope.cancel()
        await self._listener.aclose()

    async def _serve_client(self, stream: SocketStream) -> None:
        peer = stream.extra(SocketAttribute.remote_address, None)
        async with stream:
            if peer is None:  # it has reset the connection already, as port scanners do
                return
            secured = await self._secure(stream)
            if secured is None:
                return
            connection = ClientConnection(next(_numbers), self._node, str(peer[0]), int(peer[1]))
            self._streams[connection] = secured
            try:
                async with secured:
                    await RequestLoop(self._broker, connection, secured, self._security).run()
            finally:
                del self._streams[connection]
                connection.end()
                connection.run_hooks()

    async def _secure(self, stream: SocketStream) -> ByteStream | None:
        """The stream itself, or a TLS stream; None if the TLS handshake fails."""
        context = self._security.tls
        if context is None:
            return stream
        with anyio.move_on_after(_HANDSHAKE_S):
            try:
                return await TLSStream.wrap(
                    stream, server_side=True, ssl_context=context, standard_compatible=False
                )
            except (ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError, OSError):
                pass
        return None

    async def close_connections(self, client_id: str | None = None) -> None:
        """Close the connections of all clients, or of those with this client id, as a broker crash would."""
        for connection, stream in list(self._streams.items()):
            if client_id in (None, connection.client_id):
                connection.end()
                await anyio.aclose_forcefully(stream)


class ClusterServer:
    """The sockets of a broker's nodes."""

    def __init__(
        self, broker: Broker, tasks: TaskGroup, security: Security, listen: Listen | None = None
    ) -> None:
        self.broker = broker
        self._security = security
        self._listen = listen or _listen
        self._tasks = tasks
        self._servers: dict[int, NodeServer] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{node.host}:{node.port}" for node in self.broker.cluster.nodes.values())

    async def start_node(self, node: Node) -> None:
        """Listen on the node's port, or on a free one if it is 0."""
        listener = await self._listen(node.host, node.port)
        node.port = listener.extra(SocketAttribute.local_port)
        server = self._servers[node.id] = NodeServer(self.broker, node, self._security, listener)
        self._tasks.start_soon(server.serve)
        if not node.is_up:
            self.broker.cluster.set_up(node, True)

    async def start_metrics(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Serve GET /metrics. Returns the port."""
        from kshare.broker.metrics_endpoint import serve_metrics

        listener = await _listen(host, port)
        self._tasks.start_soon(serve_metrics, self.broker, listener)
        return listener.extra(SocketAttribute.local_port)

    async def stop_node(self, node: Node) -> None:
        """Stop a node as if it was killed: connections break, and other nodes become leaders and coordinators."""
        server = self._servers.pop(node.id)
        await server.stop_listening()
        await server.close_connections()
        self.broker.cluster.set_up(node, False)

    async def hang_up(self, client_id: str | None = None) -> None:
        """Break the connections of all clients, or of one."""
        for server in self._servers.values():
            await server.close_connections(client_id)

    async def stop(self) -> None:
        """Stop all nodes at once, without moving leaders."""
        for server in self._servers.values():
            await server.stop_listening()


async def _listen(host: str, port: int) -> Listener[SocketStream]:
    return (await anyio.create_tcp_listener(local_host=host, local_port=port)).listeners[0]


@asynccontextmanager
async def run(
    broker: Broker, security: Security | None = None, listen: Listen | None = None
) -> AsyncIterator[ClusterServer]:
    """Serve the broker's nodes until the block ends. Nodes without a port get a free one.

    `listen` opens a listener for a host and a port: by default over TCP, in a simulation on its network.
    """
    async with anyio.create_task_group() as tasks:
        running = ClusterServer(broker, tasks, security or Security(), listen)
        if isinstance(broker.clock, SystemClock):
            tasks.start_soon(broker.clock.run)
        for node in broker.cluster.nodes.values():
            await running.start_node(node)
        tasks.start_soon(_log_what_was_counted, broker)
        try:
            yield running
        finally:
            await running.stop()
            tasks.cancel_scope.cancel()
            broker.log.close()


async def _log_what_was_counted(broker: Broker) -> None:
    while True:
        await anyio.sleep(INTERVAL_S)
        broker.log.log_due()
