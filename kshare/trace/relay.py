"""Relays one client connection to a broker, in both directions.

Bytes are forwarded at once, before they are inspected. The observer gets what the broker sent, with the original
addresses.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from time import time
from typing import Protocol

import anyio

from kshare.errors import DecodeError
from kshare.net.tcp import WOULD_BLOCK
from kshare.trace.inspection_queue import See
from kshare.trace.request_heads import RequestHead, RequestHeadReader
from kshare.trace.response_stream import Move, ResponseStream
from kshare.trace.socket_loop import READABLE, WRITABLE, SocketLoop

_TLS_HELLO = b"\x16\x03"
_MOST_IN_A_ROW = 16
"""How many pieces to read from one side before other connections are served."""

Endpoint = tuple[str, int]


class Tap(Protocol):
    """Receives a copy of the traffic of one connection."""

    def client_sends(self, data: memoryview, time: float) -> None: ...

    def server_sends(self, data: memoryview, time: float) -> None: ...

    def closed(self, time: float, *, by_client: bool) -> None: ...


class ProxyObserver(Protocol):
    """Is notified of connections. An exception that it raises ends the proxy."""

    def opened(self, client: Endpoint, server: Endpoint, name: str, time: float) -> Tap:
        """`server` is an IP address; `name` is the address that the cluster advertises."""

    def note(self, text: str) -> None:
        """Reports a problem that can't be seen in the traffic."""


class Relay:
    """Relays between two non-blocking sockets. It doesn't close them."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        name: str,
        observer: Tap,
        move: Move,
        note: Callable[[str], None],
        loop: SocketLoop,
    ) -> None:
        self._client = client
        self._server = server
        self._name = name
        self._tap = observer
        self._note = note
        self._pump = loop
        self._heads = RequestHeadReader()
        self._pending_requests: dict[int, RequestHead] = {}
        self._responded = ResponseStream(self._pending_requests, move)
        self._observe_request: See = observer.client_sends
        self._observe_response: See = observer.server_sends
        self._requests = _Lane(client, server, loop.unseen.receive, self._pass_request, self._heads)
        self._responses = _Lane(server, client, loop.unseen.receive, self._pass_response, self._responded)
        self._has_begun = False
        self._ended_by_client = False
        self._ended = anyio.Event()

    async def run(self) -> None:
        """Runs until either side disconnects."""
        try:
            self._go_on()
            await self._ended.wait()
        finally:
            self._pump.forget(self._client, self._server)
            self._pump.look()
        self._tap.closed(time(), by_client=self._ended_by_client)

    # --- called by the socket loop

    def _client_ready(self, events: int) -> None:
        self._transfer(events, self._requests, self._responses)

    def _server_ready(self, events: int) -> None:
        self._transfer(events, self._responses, self._requests)

    def _transfer(self, events: int, reading: _Lane, writing: _Lane) -> None:
        was_full = reading.is_full or writing.is_full
        lane = writing
        try:
            if events & WRITABLE:
                writing.flush()
            lane = reading
            if events & READABLE:
                reading.read()
        except (OSError, EOFError):
            self._end(lane)
        except DecodeError as error:
            self._note(f"{self._name} sent an invalid Kafka response, so the connection was closed: {error}")
            self._end(lane)
        else:
            if was_full or reading.is_full or writing.is_full:
                self._go_on()

    def _end(self, lane: _Lane) -> None:
        self._ended_by_client = lane is self._requests
        self._ended.set()
        self._pump.forget(self._client, self._server)

    def _go_on(self) -> None:
        requests, responses = self._requests, self._responses
        self._pump.watch(self._client, _interest(requests, responses), self._client_ready)
        self._pump.watch(self._server, _interest(responses, requests), self._server_ready)

    # --- forwarding

    def _pass_request(self, data: memoryview) -> Iterable[memoryview]:
        if not self._has_begun:
            self._has_begun = True
            if data[: len(_TLS_HELLO)] == _TLS_HELLO:
                self._note(
                    "a client speaks TLS: configure it without TLS, as the proxy accepts plaintext only; configure TLS "
                    "to the cluster with --command-config"
                )
                raise EOFError
        for head in self._heads.feed(data):
            self._pending_requests[head.correlation_id] = head
        self._pump.unseen.add(self._observe_request, len(data))
        return (data,)

    def _pass_response(self, data: memoryview) -> Iterable[bytes | memoryview]:
        self._pump.unseen.add(self._observe_response, len(data))
        return self._responded.feed(data)


class _Frames(Protocol):
    @property
    def is_amid(self) -> bool:
        """A frame has begun, and isn't complete yet."""


class _Lane:
    """One direction. Stops reading while it can't write. Raises EOFError at the end of the stream."""

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        receive: Callable[[socket.socket], memoryview],
        pass_on: Callable[[memoryview], Iterable[bytes | memoryview]],
        frames: _Frames,
    ) -> None:
        self._source = source
        self._sink = sink
        self._receive = receive
        self._pass_on = pass_on
        self._frames = frames
        self._unsent: deque[memoryview] = deque()
        self.is_full = False
        """The sink no longer takes for now."""

    def read(self) -> None:
        """Forwards what has arrived. In the middle of a frame it tries again: the rest mostly follows at once."""
        pieces = 0
        while not self.is_full:
            try:
                data = self._receive(self._source)
            except WOULD_BLOCK:
                return
            if not data:
                raise EOFError
            self._unsent.extend(memoryview(piece) for piece in self._pass_on(data) if piece)
            self._write()
            pieces += 1
            is_worth_trying = self._frames.is_amid and pieces < _MOST_IN_A_ROW
            if not (is_worth_trying or (isinstance(self._source, ssl.SSLSocket) and self._source.pending())):
                return  # if more has arrived, the selector reports it

    def flush(self) -> None:
        """The sink can take more again."""
        self._write()
        self.read()

    def _write(self) -> None:
        unsent = self._unsent
        while unsent:
            try:
                sent = self._sink.send(unsent[0]) if len(unsent) == 1 else self._sink.sendmsg(unsent)
            except WOULD_BLOCK:
                break
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.popleft())
            if sent:
                unsent[0] = unsent[0][sent:]
        self.is_full = bool(unsent)


def _interest(reading: _Lane, writing: _Lane) -> int:
    return (0 if reading.is_full else READABLE) | (WRITABLE if writing.is_full else 0)
