"""Bounds the connections of the console: whoever connects and does nothing can't lock others out.

A connection has a few seconds for the headers of a request, and again for those of the next one. A response of which
the client has taken nothing for as long is given up. If there are too many connections, altogether or of one address,
one is closed, so that new ones find a place: one that waits for its client rather than one that waits for us, and of
these the one that has made no progress for longest; first of all, those without a login.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from kshare.web.guard import MAKING
from kshare.web.login_limits import network_of

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

HEADERS_S = 10.0
STALLED_S = 10.0
"""How long a client may take nothing of a response."""
MOST_CONNECTIONS = 512
"""Of which at most 200 show live pages."""
MOST_OF_ADDRESS = 256
"""More than show live pages: a proxy that only adds TLS makes the connections of all users."""
UNREAD_S = 2.0
MOST_UNREAD = 1 << 20
"""How long, and how many bytes, a client may still send after a response that didn't wait for its body. They are thrown
away: if the connection ended at once, the client wouldn't see the response."""
MOST_PIPELINED = 10
"""Requests that were sent before the response to the one before. Browsers and proxies send none."""
_RESET = struct.pack("ii", 1, 0)
BACKLOG = 64
"""Connections that are accepted at a time, before one of them can be closed again."""
_OTHER_FILES = 128
"""Files, and connections to the cluster and to workers."""
_ENOUGH_FILES = 4096
_LEAST_CONNECTIONS = 16
_MOST_HEADER_BYTES = 64 << 10
"""Addresses may contain bytes to name, and a request also names the page from which it comes."""
_MOST_PARTS = 200
_PART = 64
"""Bytes that further parts have on average, at least. Browsers and proxies send thousands."""
_MOST_OVERHEAD = 256 << 10
"""Bytes around the data, besides as many as there are data. What was read ahead is among them."""


class BoundedConnection(h11.Connection):
    """Raises h11.RemoteProtocolError for a body of very small parts, or with more around its data than data."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, _MOST_HEADER_BYTES)
        self._parts = self._data = self._received = 0

    def receive_data(self, data: bytes) -> None:
        self._received += len(data)
        super().receive_data(data)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        is_padded = self._received > 2 * self._data + _MOST_OVERHEAD
        if isinstance(event, h11.Request):
            self._parts = self._data = self._received = 0
        elif isinstance(event, h11.Data):
            self._parts += 1
            self._data += len(event.data)
            if self._parts > _MOST_PARTS + self._data // _PART:
                raise h11.RemoteProtocolError("the parts of the body are too small")
        elif event is h11.NEED_DATA and self.their_state is h11.SEND_BODY and is_padded:
            raise h11.RemoteProtocolError("the body has less data than what is around it")
        return event


def raise_limit() -> None:
    """Raise the limit of open files to what the console ever needs, as far as it is allowed to."""
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(_ENOUGH_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections(wanted: int) -> int:
    """As many as are wanted, or as there is room for: those that are being accepted and closed need it, too."""
    if resource is None:
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(_LEAST_CONNECTIONS, min(wanted, soft - _OTHER_FILES - 3 * BACKLOG))


class ConnectionLimits:
    """`has_logins` tells whether a request that was let in says who makes it."""

    def __init__(
        self,
        most: int = MOST_CONNECTIONS,
        of_address: int | None = MOST_OF_ADDRESS,
        *,
        has_logins: bool = False,
        headers_s: float = HEADERS_S,
        stalled_s: float = STALLED_S,
    ) -> None:
        self.headers_s = headers_s
        self.stalled_s = stalled_s
        self._most = most
        self._of_address = of_address
        self._has_logins = has_logins
        self._open: set[BoundedProtocol] = set()

    def add(self, one: BoundedProtocol) -> None:
        """Closes another one if there are too many."""
        neighbours = [other for other in self._open if other.network == one.network]
        if self._of_address is not None and len(neighbours) >= self._of_address:
            min(neighbours, key=self._worth).hang_up()
        elif len(self._open) >= self._most:
            min(self._open, key=self._worth).hang_up()
        self._open.add(one)

    def discard(self, one: BoundedProtocol) -> None:
        self._open.discard(one)

    def _worth(self, one: BoundedProtocol) -> tuple[bool, bool, float]:
        return self._has_logins and one.has_user, not one.waits_for_client, one.progress_at


class BoundedProtocol(H11Protocol):
    limits: ConnectionLimits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.conn = BoundedConnection()
        transport.set_write_buffer_limits(0)  # writing pauses until the client has taken all that was written
        self.network = network_of(self.client[0]) if self.client else ""
        self.progress_at = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._pipelined = 0
        self._left_unread: int | None = None
        """Set once the connection is to end."""
        self._had_user = False
        self.limits.add(self)
        self._set_timer(self.limits.headers_s, self.hang_up)

    @property
    def has_user(self) -> bool:
        """Whether a request was let in, and not only refused."""
        return self._had_user or "kshare.user" in (self.scope or ())

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has to send or to read something. Otherwise, a page is being made or is live."""
        return self._is_idle or self.cycle.more_body or self.flow.write_paused

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        if self._left_unread is None:
            super().data_received(data)
            return
        self._left_unread -= len(data)
        if self._left_unread < 0:
            self.hang_up()

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:  # a request has begun
            self.progress_at = self.loop.time()
            if not self.flow.write_paused:
                self._set_timer()
        elif not self._is_idle:  # more of its body has come
            self.progress_at = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        """For a request that can't be read on, unless its response has begun."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # nothing can be sent any more
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.hang_up()

    def on_response_complete(self) -> None:
        self._had_user = self.has_user
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._end_unread()
            return
        self._pipelined = self._pipelined + 1 if self.conn.trailing_data[0] else 0
        if self._pipelined > MOST_PIPELINED:
            self.transport.close()
        super().on_response_complete()  # which may begin the next one
        if self._is_idle:
            self.progress_at = self.loop.time()
            if not self.flow.write_paused:
                self._set_timer(self.limits.headers_s, self.hang_up)

    def _end_unread(self) -> None:
        """End the connection after the response, without parsing the rest of the body."""
        self._left_unread = MOST_UNREAD
        self.transport.write_eof()
        self.flow.resume_reading()
        self._set_timer(UNREAD_S, self.hang_up)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        self._set_timer(self.limits.stalled_s, self._check_sending)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.progress_at = self.loop.time()
        if self._is_idle:
            self._set_timer(self.limits.headers_s, self.hang_up)
        else:
            self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.discard(self)
        self._set_timer()
        super().connection_lost(exc)
        making = (self.scope or {}).get(MAKING)
        if isinstance(making, anyio.CancelScope):
            making.cancel()  # what is made for nobody would keep others waiting

    def hang_up(self) -> None:
        self.limits.discard(self)
        self._set_timer()
        self.connections.discard(self)
        if self.flow.write_paused:  # otherwise the system would keep what it hasn't sent, for minutes
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def _check_sending(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent >= self._unsent:
            self.hang_up()
            return
        self._unsent, self.progress_at = unsent, self.loop.time()
        self._set_timer(self.limits.stalled_s, self._check_sending)

    def _set_timer(self, seconds: float = 0.0, act: Callable[[], None] | None = None) -> None:
        """Instead of the one before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if act is None else self.loop.call_later(seconds, act)


def bounded_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """For uvicorn, which creates an object of it for each connection."""
    attributes: dict[str, Any] = {"limits": limits}
    return type("BoundedProtocol", (BoundedProtocol,), attributes)
