"""A connection to a broker: pipelines requests and matches responses to them by correlation id.

Decides when the connection has ended: at the end of the stream, at bytes that can't be a response, or when the broker
has been silent for too long. All pending requests then fail with the reason. Never reconnects, never repeats a request,
and doesn't know what requests mean.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from kshare.errors import (
    ConnectionLost,
    DecodeError,
    KshareError,
    RequestTimedOut,
    UnreadableResponse,
    own_copy,
)
from kshare.net.clock import loop_clock
from kshare.net.error_translation import FIRST_BYTES, Proof, connect_hint, connection_error
from kshare.net.frame_reader import FrameReader
from kshare.net.outbox import Outbox
from kshare.net.pending import OnResponse, PendingRequest
from kshare.net.settings import NetSettings
from kshare.net.stream import Stream
from kshare.net.versions import BrokerVersions, VersionRange
from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.message import Message, Request
from kshare.wording import time_limit

log = logging.getLogger("kshare.net")

ResponseT = TypeVar("ResponseT", bound=Message)

SILENCE = 1.5
"""After this many request timeouts with a pending response and without a byte, a broker is considered dead."""

_LAST_ID = 2**31 - 1
_ENOUGH = 2
"""A listener that requires other security responses ApiVersions, and nothing else."""


class NetMeter(Protocol):
    """Is told of connections, requests and bytes. `peer` is the broker's address. Must be quick, and must not raise."""

    def on_connected(self, peer: str) -> None: ...

    def on_disconnected(self, peer: str) -> None: ...

    def on_sent(self, peer: str, size: int) -> None:
        """A request was sent, or queued."""

    def on_received(self, peer: str, size: int) -> None:
        """Bytes were read."""

    def on_response(self, peer: str, seconds: float) -> None:
        """A request got a response."""


class AskFunction(Protocol):
    """A function that sends a request and returns the response."""

    async def __call__(
        self, request: Request[ResponseT], *, version: int | None = None, timeout: float | None = None
    ) -> ResponseT: ...


class Connection:
    """Created by `kshare.net.handshake`, which also negotiates the API versions."""

    def __init__(
        self,
        stream: Stream,
        peer: str,
        settings: NetSettings,
        meter: NetMeter | None = None,
        proof: Proof | None = None,
    ) -> None:
        self.peer = peer
        self._proof = proof or Proof()
        self._meter = meter
        self.versions = BrokerVersions({}, {}, {})
        self._settings = settings
        self._stream = stream
        self._last_id = 0
        self._outbox = Outbox(stream)
        self._frames = FrameReader(stream, settings.max_response_bytes, self._on_bytes)
        self._pending: dict[int, PendingRequest] = {}
        """By correlation id: requests that were sent, or wait to be sent."""
        self._exclusive_lock = anyio.Lock()
        self._abandoned: set[int] = set()
        self._waiting_since: float | None = None
        self._clock = loop_clock()
        self._first_bytes = b""
        self._responses = 0
        self.is_suspect = False
        """A request timed out, and nothing has been received since."""
        self.is_closed_by_us = False
        self._error: KshareError | None = None
        self._ended = anyio.Event()
        self._on_closed: list[Callable[[KshareError], None]] = []
        self._tasks: TaskGroup | None = None

    def __repr__(self) -> str:
        return f"<Connection to {self.peer}, {'open' if self.is_open else 'closed'}>"

    # --- requests

    async def ask(
        self, request: Request[ResponseT], *, version: int | None = None, timeout: float | None = None
    ) -> ResponseT:
        """Sends a request and returns the response, in the highest version that both sides support by default.

        The connection stays usable after a cancellation or timeout: the late response is dropped. The exception is a
        broker that stopped reading in the middle of this request: then the connection ends.
        """
        return cast("ResponseT", await self._ask(request, version, timeout))

    def send(
        self, request: Request[Any], *, version: int | None = None, on_response: OnResponse | None = None
    ) -> PendingRequest:
        """Sends this request, and then each request that `on_response` returns for a response, until that is None.

        It is sent now, or as soon as earlier requests have been sent. `on_response` is called when a response arrives,
        by the event loop and not in a task, and the next request is sent within that call. The caller has to call
        `wait_for_response`, which also raises errors from sending.
        """
        pending = PendingRequest(request, on_response)
        self._send(pending, request, version)
        return pending

    async def wait_for_response(self, pending: PendingRequest, *, timeout: float | None = None) -> memoryview:
        """Returns the frame of the last response; `timeout` applies to each. Raises what `on_response` has raised."""
        limit = self._limit(timeout)
        try:
            while not pending.is_done and self._clock() < pending.since + limit:
                with anyio.CancelScope(deadline=pending.since + limit):
                    await pending.wait()
        finally:
            self._abandon(pending)
        if pending.error is not None:
            error, pending.error = pending.error, None
            try:
                raise error
            finally:
                del error  # see `kshare.errors`
        if pending.response is not None:
            return pending.response
        if self._error is not None:
            raise own_copy(self._error)
        self._check_silence()
        raise RequestTimedOut(
            f"{self.peer} didn't respond to {pending.request.NAME} within {time_limit(limit)}"
        )

    @property
    def is_free(self) -> bool:
        """Whether a request would be sent at once."""
        return self._error is None and self._outbox.is_free

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[AskFunction]:
        """Within this context only requests through the yielded function are sent; earlier ones get responses first."""

        async def ask(
            request: Request[ResponseT], *, version: int | None = None, timeout: float | None = None
        ) -> ResponseT:
            return cast("ResponseT", await self._ask(request, version, timeout, is_exclusive=True))

        async with self._exclusive_lock:
            self._outbox.reserve()
            try:
                yield ask
            finally:
                self._leave(self._outbox.release)

    def version_for(self, request: type[Request[Any]]) -> int:
        """The highest version that both sides support; raises Unsupported if there is none."""
        return self.versions.best(request, self.peer)

    def supports(self, request: type[Request[Any]]) -> VersionRange | None:
        """The first and last version that both sides support, or None."""
        return self.versions.common(request)

    # --- closing

    @property
    def is_open(self) -> bool:
        return self._error is None

    def on_closed(self, callback: Callable[[KshareError], None]) -> None:
        """Calls `callback` with the reason when the connection ends, or now if it has ended; it must not raise."""
        if self._error is not None:
            callback(self._error)
        else:
            self._on_closed.append(callback)

    async def wait_closed(self) -> None:
        """Waits until the stream is closed and every task has ended."""
        await self._ended.wait()

    async def aclose(self) -> None:
        """Fails all pending requests, and returns when stream and tasks have ended. Doesn't wait for the broker."""
        self.end(ConnectionLost(f"the connection to {self.peer} was closed on this side"), is_ours=True)
        await self._ended.wait()

    def end(self, error: KshareError, *, is_ours: bool = False) -> None:
        """Ends the connection; only the first reason counts. `is_ours`: this side closed it."""
        if self._error is not None:
            return
        self._error = error
        self.is_closed_by_us = is_ours
        log.debug("connection to %s ended: %s", self.peer, error)
        for pending in self._pending.values():
            pending.finish()
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        for callback in self._on_closed:
            callback(error)

    # --- tasks

    def start(self, tasks: TaskGroup) -> None:
        """Starts to read. From now on `tasks` owns the stream: ending that task group closes it."""
        tasks.start_soon(self._live, name=f"kshare connection to {self.peer}")

    def start_task(self, run: Callable[[], Any]) -> None:
        """Starts a task that ends with the connection."""
        assert self._tasks is not None, "a response has arrived, so the connection is running"
        self._tasks.start_soon(run)

    async def _live(self) -> None:
        try:
            async with anyio.create_task_group() as self._tasks:
                if self._error is None:
                    self._tasks.start_soon(self._write)
                    await self._read()
                self._tasks.cancel_scope.cancel()
        finally:
            self.end(ConnectionLost(f"the connection to {self.peer} was closed on this side"), is_ours=True)
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(self._stream)
            self._ended.set()

    async def _read(self) -> None:
        try:
            await self._stream.call_when_readable(self._take_frames)
        except DecodeError as error:
            ended = ConnectionLost(f"{self.peer} sent an invalid response: {error}{self._hint()}")
            ended.__cause__ = error
            self.end(ended)
        except Exception as error:
            ending = connection_error(error, self.peer)
            if isinstance(ending, ConnectionLost):
                ending = ConnectionLost(f"{ending}{self._hint()}")
            self.end(ending)

    async def _write(self) -> None:
        """Sends what couldn't be sent at once."""
        try:
            await self._outbox.run()
        except Exception as error:
            self.end(connection_error(error, self.peer))

    def _take_frames(self) -> None:
        for frame in self._frames.read():
            self._deliver(frame)
        self._waiting_since = self._clock() if self._pending or self._abandoned else None

    def _on_bytes(self, data: bytes | memoryview) -> None:
        if len(self._first_bytes) < FIRST_BYTES:
            self._first_bytes += data[:FIRST_BYTES]
        self.is_suspect = False
        if self._meter is not None:
            self._meter.on_received(self.peer, len(data))

    def _deliver(self, frame: memoryview) -> None:
        if len(frame) < 4:
            raise DecodeError(
                "header", 0, f"a response of {len(frame)} bytes is too short for a correlation id"
            )
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        pending = self._pending.pop(correlation_id, None)
        if pending is not None:
            self._responses += 1
            if self._responses == _ENOUGH:
                self._proof.is_given = True
            if self._meter is not None:
                self._meter.on_response(self.peer, self._clock() - pending.since)
            self._on_response(pending, frame)
        elif correlation_id in self._abandoned:
            self._abandoned.remove(correlation_id)
            log.debug("a response from %s arrived too late and was dropped", self.peer)
        else:
            raise DecodeError(
                "header.correlationId", 0, f"{correlation_id} doesn't belong to any request in flight"
            )

    def _hint(self) -> str:
        return connect_hint(
            self._first_bytes,
            self._settings.security,
            responses=self._responses,
            is_waiting=bool(self._pending),
            is_proven=self._proof.is_given,
        )

    # --- sending

    async def _ask(
        self, request: Request[Any], version: int | None, timeout: float | None, *, is_exclusive: bool = False
    ) -> Any:
        # Don't send a request that is cancelled already, or has no time left.
        await checkpoint_if_cancelled()
        limit = self._limit(timeout)
        if limit <= 0:
            raise RequestTimedOut(f"{self.peer} wasn't asked: no time was left for {request.NAME}")
        pending = PendingRequest(request)
        self._send(pending, request, version, is_exclusive=is_exclusive)
        return self._decode(pending, await self.wait_for_response(pending, timeout=limit))

    def _send(
        self,
        pending: PendingRequest,
        request: Request[Any],
        version: int | None,
        *,
        is_exclusive: bool = False,
    ) -> None:
        """The only way to send requests; `wait_for_response` raises any error."""
        pending.request, pending.has_response = request, False
        pending.since = self._clock()
        if self._error is not None:
            pending.finish()
            return
        try:
            pending.version = self.version_for(type(request)) if version is None else version
            self._last_id = pending.correlation_id = self._last_id % _LAST_ID + 1
            pending.frame = bytes(
                encode_request(request, pending.version, pending.correlation_id, self._settings.client_id)
            )
        except Exception as error:
            pending.error = error
            pending.finish()
            return
        self._pending[pending.correlation_id] = pending
        if self._waiting_since is None:
            self._waiting_since = pending.since
        if self._meter is not None:
            self._meter.on_sent(self.peer, len(pending.frame))
        self._leave(partial(self._outbox.put, pending.frame, is_reserved=is_exclusive))

    def _leave(self, leave: Callable[[], None]) -> None:
        """A failure ends the connection; it doesn't belong to a single request."""
        try:
            leave()
        except OSError as error:
            self.end(connection_error(error, self.peer))

    def _on_response(self, pending: PendingRequest, frame: memoryview) -> None:
        request = None
        if pending.on_response is not None:
            try:
                response = self._decode(pending, frame)
                pending.has_response = True
                request = pending.on_response(pending, response)
            except Exception as error:
                pending.error = error
        if request is not None:
            self._send(pending, request, None)
        else:
            pending.response = frame
            pending.finish()

    def _decode(self, pending: PendingRequest, frame: memoryview) -> Any:
        try:
            return decode_response(pending.request.RESPONSE, pending.version, frame)[1]
        except DecodeError as error:
            api = pending.request.NAME.removesuffix("Request")
            raise UnreadableResponse(self.peer, api, pending.version, error) from error

    def _abandon(self, pending: PendingRequest) -> None:
        """The caller has stopped waiting, with or without a response."""
        if self._pending.pop(pending.correlation_id, None) is None:
            return
        if self._outbox.withdraw(pending.frame):
            if not self._pending and not self._abandoned:
                self._waiting_since = None
        elif self._outbox.is_partly_sent(pending.frame):
            self.end(
                ConnectionLost(f"{self.peer} stopped reading in the middle of a request that was given up")
            )
        else:
            self._abandoned.add(pending.correlation_id)

    def _limit(self, timeout: float | None) -> float:
        return self._settings.request_timeout if timeout is None else timeout

    def _check_silence(self) -> None:
        self.is_suspect = True
        if self._waiting_since is None:
            return
        silent = self._clock() - self._waiting_since
        if silent >= SILENCE * self._settings.request_timeout:
            self.end(ConnectionLost(f"{self.peer} hasn't responded, nor sent anything, for {silent:.0f} s"))
