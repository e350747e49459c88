"""Servers in place of a worker's HTTP endpoint: they send any bytes, or none."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener

from kshare.worker.watch.status import SCHEMA
from kshare.worker.watch.status_url import StatusUrl


def a_page(**changes: Any) -> dict[str, Any]:
    """What a worker with one handler and one run shows."""
    counts = {"done": 4, "filtered": 0, "failed": 1, "held": 0, "moved": 0, "dead": 0}
    run = {
        "topic": "orders",
        "partition": 2,
        "offset": 17,
        "records": 1,
        "delivery_count": 3,
        "attempt": 2,
        "state": "running",
        "seconds": 12.5,
    }
    handler = {
        "handler": "ship",
        "group": "g",
        "topics": ["orders"],
        "state": "running",
        "breaker": "closed",
        "running": 1,
        "ready": 2,
        "held": 3,
        "counts": {**counts, "released": 0, "cancelled": 0, "lost": 0},
        "last_progress": 5.0,
        "unheard_s": 0.1,
        "concurrency": 10,
        "attempts": 5,
        "time_limit": 300.0,
        "lock_s": 30.0,
        "runs": [run],
        "run_count": 1,
    }
    page = {
        "schema": SCHEMA,
        "id": "a1",
        "host": "shop-1",
        "pid": 7,
        "client_id": "shop",
        "version": "1.0",
        "started_at": 1000.5,
        "state": "running",
        "reason": "",
        "handlers": [handler],
    }
    return page | changes


def response(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def json_response(**changes: Any) -> bytes:
    return response(json.dumps(a_page(**changes)).encode())


@asynccontextmanager
async def serving(
    act: bytes | Callable[[ByteStream], Awaitable[None]], context: ssl.SSLContext | None = None
) -> AsyncIterator[StatusUrl]:
    """Each connection gets these bytes after its first ones, or what the function does."""

    async def talk(stream: ByteStream) -> None:
        async with stream:
            try:
                if isinstance(act, bytes):
                    await stream.receive()
                    await stream.send(act)
                else:
                    await act(stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    listener: Any = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    if context is not None:
        listener = TLSListener(listener, context, standard_compatible=False)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, talk)
        yield StatusUrl("http" if context is None else "https", "127.0.0.1", port)
        tasks.cancel_scope.cancel()
