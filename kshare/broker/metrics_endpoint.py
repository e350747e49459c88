"""Serves GET /metrics for Prometheus, with a minimal HTTP server: one request per connection."""

from __future__ import annotations

import anyio
from anyio.abc import Listener, SocketStream

from kshare.broker.broker import Broker
from kshare.broker.metrics import exposition

_LARGEST_REQUEST = 16 * 1024
_LONGEST_S = 10.0
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


async def serve_metrics(broker: Broker, listener: Listener[SocketStream]) -> None:
    """Respond to requests until cancelled."""

    async def respond(stream: SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(_LONGEST_S):
                try:
                    request = b""
                    while b"\r\n\r\n" not in request and len(request) < _LARGEST_REQUEST:
                        request += await stream.receive()
                    await stream.send(_response(broker, request.split(b"\r\n", 1)[0]))
                except _GONE:
                    return

    async with listener:
        await listener.serve(respond)


def _response(broker: Broker, line: bytes) -> bytes:
    method, _, rest = line.partition(b" ")
    if method == b"GET" and rest.split(b" ")[0].split(b"?")[0] == b"/metrics":
        status, body = "200 OK", exposition(broker).encode()
    else:
        status, body = "404 Not Found", b"There is only GET /metrics.\n"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
