"""Serves GET /metrics for Prometheus, with a minimal HTTP server: one request per connection."""

from __future__ import annotations

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream, TaskGroup

from kshare.broker.broker import Broker
from kshare.broker.metrics import exposition

_LARGEST_REQUEST = 16 * 1024
_LONGEST_S = 10.0
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class MetricsEndpoint:
    """The HTTP server, on its own port."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.port = 0

    async def start(self, host: str, port: int, tasks: TaskGroup) -> None:
        """Listen on `port`, or on a free one if it is 0, until the task group is cancelled."""
        listener = (await anyio.create_tcp_listener(local_host=host, local_port=port)).listeners[0]
        self.port = listener.extra(SocketAttribute.local_port)
        tasks.start_soon(self._serve, listener)

    async def _serve(self, listener: Listener[SocketStream]) -> None:
        async with listener:
            await listener.serve(self._respond)

    async def _respond(self, stream: SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(_LONGEST_S):
                try:
                    request = b""
                    while b"\r\n\r\n" not in request and len(request) < _LARGEST_REQUEST:
                        request += await stream.receive()
                    await stream.send(self._response(request.split(b"\r\n", 1)[0]))
                except _GONE:
                    return

    def _response(self, line: bytes) -> bytes:
        method, _, rest = line.partition(b" ")
        if method == b"GET" and rest.split(b" ")[0].split(b"?")[0] == b"/metrics":
            status, body = "200 OK", exposition(self._broker).encode()
        else:
            status, body = "404 Not Found", b"There is only GET /metrics.\n"
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body
