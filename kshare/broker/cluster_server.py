"""Runs an embedded cluster in the current event loop, with sockets that clients can connect to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream, TaskGroup

from kshare.broker.broker import Broker
from kshare.broker.clock import SystemClock
from kshare.broker.cluster import Node
from kshare.broker.security import Security
from kshare.broker.server import NodeServer
from kshare.summary_log import INTERVAL_S

Listen = Callable[[str, int], Awaitable[Listener[SocketStream]]]


class ClusterServer:
    """The sockets of a broker's nodes."""

    def __init__(
        self, broker: Broker, tasks: TaskGroup, security: Security, listen: Listen | None = None
    ) -> None:
        self.broker = broker
        self._security = security
        self._listen = listen or _listen
        self._tasks = tasks
        self._servers: dict[int, tuple[NodeServer, Listener[SocketStream], anyio.CancelScope]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{node.host}:{node.port}" for node in self.broker.cluster.nodes.values())

    async def start_node(self, node: Node) -> None:
        """Listen on the node's port, or on a free one if it is 0."""
        listener = await self._listen(node.host, node.port)
        node.port = listener.extra(SocketAttribute.local_port)
        server, scope = NodeServer(self.broker, node, self._security), anyio.CancelScope()
        self._servers[node.id] = server, listener, scope
        self._tasks.start_soon(self._serve, server, listener, scope)
        if not node.is_up:
            self.broker.cluster.set_up(node, True)

    async def start_metrics(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Serve GET /metrics. Returns the port."""
        from kshare.broker.metrics_endpoint import MetricsEndpoint

        endpoint = MetricsEndpoint(self.broker)
        await endpoint.start(host, port, self._tasks)
        return endpoint.port

    async def stop_node(self, node: Node) -> None:
        """Stop a node as if it was killed: connections break, and other nodes become leaders and coordinators."""
        server, listener, scope = self._servers.pop(node.id)
        scope.cancel()
        await listener.aclose()
        await server.close_connections()
        self.broker.cluster.set_up(node, False)

    async def hang_up(self, client_id: str | None = None) -> None:
        """Break the connections of all clients, or of one."""
        for server, _, _ in self._servers.values():
            await server.close_connections(client_id)

    async def _serve(
        self, server: NodeServer, listener: Listener[SocketStream], scope: anyio.CancelScope
    ) -> None:
        with scope:
            async with listener, anyio.create_task_group() as tasks:
                # `stop_node` closes the listener meanwhile: cancelling alone would leave its port open for a moment.
                with suppress(anyio.ClosedResourceError):
                    await server.serve(listener, tasks)

    async def stop(self) -> None:
        """Stop all nodes at once, without moving leaders."""
        for _, listener, scope in self._servers.values():
            scope.cancel()
            await listener.aclose()


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
