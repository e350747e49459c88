"""Listens for a node's connections, and closes them when the node stops.

`request_loop` handles the requests.
"""

from __future__ import annotations

import ssl
from itertools import count

import anyio
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketStream, TaskGroup
from anyio.streams.tls import TLSStream

from kshare.broker.broker import Broker
from kshare.broker.cluster import Node
from kshare.broker.connection import ClientConnection
from kshare.broker.request_loop import RequestLoop
from kshare.broker.security import Security

_numbers = count(1)
_HANDSHAKE_S = 10.0


class NodeServer:
    """One node's listener and connections."""

    def __init__(self, broker: Broker, node: Node, security: Security) -> None:
        self._broker = broker
        self._node = node
        self._security = security
        self._streams: dict[ClientConnection, ByteStream] = {}

    async def serve(self, listener: Listener[SocketStream], tasks: TaskGroup) -> None:
        """Accept connections until cancelled."""
        await listener.serve(self._serve_client, tasks)

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
