"""A small HTTP server for health probes and metrics. Whatever its clients do, the program it belongs to goes on.

Each connection gets one response, has a deadline for everything, and may send little. If there are too many, the one
that has waited longest is closed, so that slow clients can't keep probes out. On a loopback address, requests for
other host names are refused: browsers would send them for pages of other sites.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from ipaddress import ip_address
from typing import cast

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup

from kshare.errors import ConfigError, KshareError
from kshare.http.messages import MAX_REQUEST, HttpRequest, HttpResponse, read_request
from kshare.log_text import escaped
from kshare.net.addresses import Address, format_address, is_loopback
from kshare.summary_log import SummaryLog

log = logging.getLogger("kshare.http")

REQUEST_TIMEOUT_S = 5.0
"""From the connection to the end of the request, and again to the end of the response."""
MAX_CONNECTIONS = 32
_SENT_AT_ONCE = 64 << 10
"""Bytes. What the client hasn't taken of them is copied."""
PAUSE_S = 1.0
"""After accepting a connection has failed: there may be no file descriptors left."""


Respond = Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]
"""Makes the response, or lets the client wait for it."""


def parse_listen_address(text: str, option: str = "http") -> Address:
    """Raises ConfigError, which names the option. Port 0 stands for any free one."""
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
        raise ConfigError(f'{option} must be an address to listen on, such as "127.0.0.1:8080", not {text!r}')
    return host, int(port)


@asynccontextmanager
async def http_endpoint(address: Address, respond: Respond, option: str = "http=") -> AsyncIterator[int]:
    """Listen on the address while the block runs. Yields the port.

    `option`: what chooses the address, for the message of an error.
    """
    host, port = address
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as problem:
        where = format_address(address)
        raise KshareError(
            f"the HTTP endpoint can't listen on {where} ({problem}): choose another address with {option}"
        ) from problem
    listeners = cast("Sequence[SocketListener]", listener.listeners)  # one for each address of the host
    with closing(SummaryLog(log)) as summary:
        server = _Server(respond, summary, is_local=is_loopback(host))
        async with anyio.create_task_group() as tasks:
            for listening in listeners:
                tasks.start_soon(server.accept, listening, tasks, name="kshare: HTTP endpoint")
            try:
                yield listeners[0].extra(SocketAttribute.local_port)
            finally:
                tasks.cancel_scope.cancel()


class _Server:
    def __init__(self, respond: Respond, summary: SummaryLog, *, is_local: bool) -> None:
        self._respond = respond
        self._is_local = is_local
        """Whether only this machine can connect."""
        self._summary = summary
        self._open: dict[int, anyio.CancelScope] = {}
        """Connections, the oldest first."""
        self._accepted = 0

    async def accept(self, listener: SocketListener, tasks: TaskGroup) -> None:
        async with listener:
            while True:
                try:
                    stream = await listener.accept()
                except (OSError, anyio.BrokenResourceError) as problem:  # trio's, and its cause
                    self._summary.event(
                        logging.WARNING, "the HTTP endpoint can't accept connections", problem
                    )
                    await anyio.sleep(PAUSE_S)
                    continue
                if len(self._open) >= MAX_CONNECTIONS:
                    self._open.pop(next(iter(self._open))).cancel()
                scope = anyio.CancelScope()
                self._accepted += 1
                self._open[self._accepted] = scope
                tasks.start_soon(self._serve, stream, scope, self._accepted)

    async def _serve(self, stream: SocketStream, scope: anyio.CancelScope, number: int) -> None:
        try:
            with scope:
                await self._talk(stream)
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client has gone
        finally:
            self._open.pop(number, None)
            await anyio.aclose_forcefully(stream)

    async def _talk(self, stream: SocketStream) -> None:
        request: HttpRequest | HttpResponse | None = HttpResponse.text(408, "the request took too long")
        with anyio.move_on_after(REQUEST_TIMEOUT_S):
            request = await _receive(stream)
        if request is None:
            return
        response = await self._response(request) if isinstance(request, HttpRequest) else request
        with anyio.move_on_after(REQUEST_TIMEOUT_S):
            await stream.send(response.head + response.body)
            for begin in range(0, len(response.rest), _SENT_AT_ONCE):
                await stream.send(response.rest[begin : begin + _SENT_AT_ONCE])
            await stream.send_eof()
            # Closed with unread bytes, the connection would be reset, and the response lost with it.
            await _discard(stream)

    async def _response(self, request: HttpRequest) -> HttpResponse:
        if self._is_local and not _is_ours(request.host):
            return HttpResponse.text(
                421,
                f"this endpoint serves only its own machine, and isn't known as {escaped(request.host[:100])}: "
                "request localhost, or let a proxy send Host: localhost",
            )
        try:
            response = self._respond(request)
            return response if isinstance(response, HttpResponse) else await response
        except Exception:
            self._summary.event(logging.ERROR, "a page of the HTTP endpoint failed", has_traceback=True)
            return HttpResponse.text(500, "this page failed: see the log")


def _is_ours(host: str) -> bool:
    """Whether a page of another site can't have this name, whose address it can change (DNS rebinding)."""
    try:
        ip_address(host)
    except ValueError:
        return host in ("", "localhost") or host.endswith(".localhost")
    return True


async def _receive(stream: SocketStream) -> HttpRequest | HttpResponse | None:
    """None if the client has closed the connection before."""
    received = b""
    while True:
        try:
            received += await stream.receive(MAX_REQUEST - len(received))
        except anyio.EndOfStream:
            return None
        request = read_request(received)
        if request is not None:
            return request


async def _discard(stream: SocketStream) -> None:
    """Read what the client still sends, a little of it, until it closes the connection."""
    left = 8 * MAX_REQUEST
    while left > 0:
        try:
            left -= len(await stream.receive(MAX_REQUEST))
        except anyio.EndOfStream:
            return
