"""One connection: splits frames, executes requests in order, and sends the responses.

Decides when a connection ends. It has two tasks: one reads, so that a disconnect is noticed while a request waits; the
other handles one request after the other. Interprets no requests except ApiVersions and authentication.

Requests that arrive together are handled without yielding to other tasks in between, and their responses are sent
together. So a fetch that waits on another connection gets all records that were written together in one response.
Before a request waits, `Call.wait` sends all earlier responses.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from contextlib import suppress
from typing import cast

import anyio
from anyio.abc import ByteStream

from kshare.broker.broker import Broker
from kshare.broker.connection import Call, ClientConnection, CloseConnection
from kshare.broker.faults import Fault, naming
from kshare.broker.handlers import api_versions, respond
from kshare.broker.security import Security
from kshare.errors import DecodeError
from kshare.protocol.envelopes import encode_response, request_class
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.frames import API_VERSIONS, FrameSplitter, request_header_version
from kshare.protocol.message import Message
from kshare.protocol.messages import RequestHeader

_CHUNK = 256 * 1024
_LARGEST_REQUEST = 100 * 1024 * 1024
_READ_AHEAD = 64
_READ_AHEAD_BYTES = 4 * 1024 * 1024
"""While this many requests, or this many bytes of requests, are queued, the connection isn't read."""
_SENT_TOGETHER = 16
"""The number of buffered responses at which they are sent, so that other tasks can run."""
_LARGE = 64 * 1024
"""The number of buffered bytes at which responses are sent."""
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class RequestLoop:
    """The two tasks of one connection and the queue between them."""

    def __init__(
        self, broker: Broker, connection: ClientConnection, stream: ByteStream, security: Security
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._stream = stream
        self._login = security.login()
        self._unsent: list[bytearray] = []
        self._unsent_size = 0
        connection.send_responses = self._send_responses
        self._frames: deque[memoryview] = deque()
        self._frames_arrived = anyio.Event()
        self._frame_taken = anyio.Event()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read)
            with suppress(CloseConnection):
                await self._response_all()
            self._connection.end()
            tasks.cancel_scope.cancel()

    async def _read(self) -> None:
        splitter = FrameSplitter(_LARGEST_REQUEST)
        try:
            while True:
                chunk = await self._stream.receive(_CHUNK)
                self._frames.extend(splitter.feed(chunk))
                if self._frames:
                    self._frames_arrived.set()
                while self._has_enough():
                    self._frame_taken = anyio.Event()
                    await self._frame_taken.wait()
        except DecodeError as problem:
            self._warn("an invalid frame", problem)
        except _GONE:
            pass
        self._connection.end()
        self._frames_arrived.set()

    def _has_enough(self) -> bool:
        """Whether so much is queued that reading must wait until a request is taken."""
        return len(self._frames) >= _READ_AHEAD or sum(map(len, self._frames)) >= _READ_AHEAD_BYTES

    async def _response_all(self) -> None:
        while True:
            while self._frames:
                frame = self._frames.popleft()
                self._frame_taken.set()
                try:
                    await self._response(frame)
                except CloseConnection:
                    await self._send_responses()
                    raise
                if len(self._unsent) >= _SENT_TOGETHER or self._unsent_size >= _LARGE:
                    await self._send_responses()
            if await self._send_responses():
                continue  # more requests may have arrived meanwhile
            if not self._connection.is_open:
                return
            self._frames_arrived = anyio.Event()
            await self._frames_arrived.wait()

    async def _response(self, frame: memoryview) -> None:
        header, request = self._decode(frame)
        call = Call(
            self._broker,
            self._connection.node,
            self._connection,
            header.request_api_key,
            header.request_api_version,
            header.client_id,
        )
        self._connection.client_id = header.client_id
        if request is None:
            refusal = api_versions.response(call, ErrorCode.UNSUPPORTED_VERSION)
            self._enqueue(encode_response(refusal, 0, header.correlation_id))
            return
        counted = request.NAME.removesuffix("Request"), call.node.id
        self._broker.counters.requests[counted] += 1
        try:
            fault = self._broker.faults.take(request, call)
            if fault is not None:
                await self._send_responses()
            response = await (
                self._handle(request, call) if fault is None else self._apply_fault(fault, request, call)
            )
            self._broker.flush()
            if getattr(response, "error_code", 0):
                self._broker.counters.refusals[counted] += 1
            encoded = (
                None if response is None else encode_response(response, call.version, header.correlation_id)
            )
        except CloseConnection:
            raise
        except Exception as error:
            # Record it for tests. Close the connection, because the client would wait forever.
            what = f"{type(request).__name__} v{call.version} failed"
            self._broker.log.event(logging.ERROR, what, error, has_traceback=True)
            self._broker.crashes.append(error)
            raise CloseConnection from error
        if encoded is None:
            return
        cut_after = None if fault is None else fault.cut_after
        if cut_after is not None:
            del encoded[cut_after:]
        self._enqueue(encoded)
        if cut_after is not None:
            raise CloseConnection

    async def _handle(self, request: Message, call: Call) -> Message | None:
        if self._login is not None and not self._login.allows(call.api_key):
            raise CloseConnection
        if self._login is not None and self._login.handles(call.api_key):
            response = self._login.response(request)
            self._connection.principal = self._login.principal
            return response
        return await respond(request, call)

    async def _apply_fault(self, fault: Fault, request: Message, call: Call) -> Message | None:
        """Apply a fault to a request, and return the response, if any."""
        clock = call.broker.clock
        if fault.before_ms:
            await call.wait([], clock.now() + fault.before_ms)
        if fault.do is not None:
            with naming("do", request):
                fault.do()
        if fault.hang_up:
            raise CloseConnection
        if fault.swallow:
            return None
        if fault.error is not None:
            # Rarely needed, and it imports a dozen messages.
            from kshare.broker.error_responses import error_response

            response: Message | None = error_response(request, fault.error)
        else:
            response = await self._handle(request, call)
        if fault.change is not None and response is not None:
            with naming("change", request):
                fault.change(response)
        if fault.after_ms:
            await call.wait([], clock.now() + fault.after_ms)
        return None if fault.mute else response

    def _enqueue(self, response: bytearray) -> None:
        self._unsent.append(response)
        self._unsent_size += len(response)

    async def _send_responses(self) -> bool:
        """Returns whether there were any. Raises CloseConnection if the client has disconnected."""
        if not self._unsent:
            return False
        responses, self._unsent, self._unsent_size = self._unsent, [], 0
        data = responses[0] if len(responses) == 1 else bytearray().join(responses)
        # `send` accepts any bytes-like object, whatever its signature says.
        try:
            await self._stream.send(cast("bytes", data))
        except _GONE as gone:
            raise CloseConnection from gone
        return True

    def _decode(self, frame: memoryview) -> tuple[RequestHeader, Message | None]:
        """The request is None for ApiVersions in an unsupported version, which gets a response nevertheless."""
        if len(frame) < 8:
            raise CloseConnection
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
        if not self._broker.profile.offers(api_key, version):
            if api_key == API_VERSIONS:
                return RequestHeader(api_key, version, correlation_id), None
            self._warn(f"a request for API {api_key} in version {version}, which isn't supported")
            raise CloseConnection
        try:
            return _read_request(frame)
        except DecodeError as problem:
            self._warn("a malformed request", problem)
            raise CloseConnection from None

    def _warn(self, what: str, detail: object = "") -> None:
        self._broker.log.event(logging.WARNING, f"{self._connection.peer} sent {what}", detail)


def _read_request(frame: memoryview) -> tuple[RequestHeader, Message]:
    """Unlike `decode_request`, it ignores bytes after the request. So does Kafka, and librdkafka sends some."""
    api_key, version = struct.unpack_from(">hh", frame)
    cls = request_class(api_key)
    header, body = RequestHeader.decode_prefix(
        frame, request_header_version(api_key, version, cls.is_flexible(version))
    )
    return header, cls.decode_prefix(frame, version, body)[0]
