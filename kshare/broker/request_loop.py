"""One connection: splits frames, has requests answered in order, sends the responses.

Decides when a connection is over. It has two tasks: one reads, so that a client that hangs up is noticed while its
request is parked; one answers, request after request. Knows no request but ApiVersions and what logs clients in.

Requests that came together are answered together, without giving way to other tasks in between. So a fetch that waits
elsewhere sees all that was written at once, and gets it in one answer. Nothing answered stays behind while a request
waits: `Call.wait` sends it first.
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
from kshare.broker.dispatch import handler_for, is_offered
from kshare.broker.faults import Fault
from kshare.broker.handlers import api_versions
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
"""Requests that may wait for their turn before the connection isn't read any more."""
_SENT_TOGETHER = 16
"""Answers after which others get their turn."""
_LARGE = 64 * 1024
"""Bytes of answers that aren't worth keeping back."""
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
        connection.send_answers = self._send_answers
        self._frames: deque[memoryview] = deque()
        self._came = anyio.Event()
        self._taken = anyio.Event()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read)
            with suppress(CloseConnection):
                await self._answer_all()
            self._connection.end()
            tasks.cancel_scope.cancel()

    async def _read(self) -> None:
        splitter = FrameSplitter(_LARGEST_REQUEST)
        try:
            while True:
                chunk = await self._stream.receive(_CHUNK)
                self._frames.extend(splitter.feed(chunk))
                if self._frames:
                    self._came.set()
                while len(self._frames) >= _READ_AHEAD:
                    self._taken = anyio.Event()
                    await self._taken.wait()
        except DecodeError as problem:
            self._warn("what is no request", problem)
        except _GONE:
            pass
        self._connection.end()
        self._came.set()

    async def _answer_all(self) -> None:
        while True:
            while self._frames:
                frame = self._frames.popleft()
                self._taken.set()
                try:
                    await self._reply(frame)
                except CloseConnection:
                    await self._send_answers()
                    raise
                if len(self._unsent) >= _SENT_TOGETHER or self._unsent_size >= _LARGE:
                    await self._send_answers()
            if await self._send_answers():
                continue  # more may have come meanwhile
            if not self._connection.is_open:
                return
            self._came = anyio.Event()
            await self._came.wait()

    async def _reply(self, frame: memoryview) -> None:
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
            refusal = api_versions.answer(call, ErrorCode.UNSUPPORTED_VERSION)
            self._keep(encode_response(refusal, 0, header.correlation_id))
            return
        counted = request.NAME.removesuffix("Request"), call.node.id
        self._broker.counters.requests[counted] += 1
        fault = self._broker.faults.take(request, call)
        if fault is not None:
            await self._send_answers()
        try:
            answer = await (
                self._handle(request, call) if fault is None else self._apply_fault(fault, request, call)
            )
            self._broker.flush()
            if getattr(answer, "error_code", 0):
                self._broker.counters.refusals[counted] += 1
            reply = None if answer is None else encode_response(answer, call.version, header.correlation_id)
        except CloseConnection:
            raise
        except Exception as error:
            # A test should learn of it, and the client must not wait for ever.
            what = f"{type(request).__name__} v{call.version} failed"
            self._broker.log.event(logging.ERROR, what, error, has_traceback=True)
            self._broker.crashes.append(error)
            raise CloseConnection from error
        if reply is None:
            return
        cut_after = None if fault is None else fault.cut_after
        if cut_after is not None:
            del reply[cut_after:]
        self._keep(reply)
        if cut_after is not None:
            raise CloseConnection

    async def _handle(self, request: Message, call: Call) -> Message | None:
        if self._login is not None and not self._login.allows(call.api_key):
            raise CloseConnection
        if self._login is not None and self._login.handles(call.api_key):
            answer = self._login.answer(request)
            self._connection.principal = self._login.principal
            return answer
        return await handler_for(call.api_key)(request, call)

    async def _apply_fault(self, fault: Fault, request: Message, call: Call) -> Message | None:
        """The answer to a request that meets a fault."""
        clock = call.broker.clock
        if fault.before_ms:
            await call.wait([], clock.now() + fault.before_ms)
        if fault.do is not None:
            fault.do()
        if fault.hang_up:
            raise CloseConnection
        if fault.swallow:
            return None
        if fault.error is not None:
            # Seldom needed, and it loads a dozen messages.
            from kshare.broker.error_responses import error_response

            answer: Message | None = error_response(request, fault.error)
        else:
            answer = await self._handle(request, call)
        if fault.change is not None and answer is not None:
            fault.change(answer)
        if fault.after_ms:
            await call.wait([], clock.now() + fault.after_ms)
        return None if fault.mute else answer

    def _keep(self, answer: bytearray) -> None:
        self._unsent.append(answer)
        self._unsent_size += len(answer)

    async def _send_answers(self) -> bool:
        """Returns whether there were any. Raises RefusedConnection if the client has disconnected."""
        if not self._unsent:
            return False
        answers, self._unsent, self._unsent_size = self._unsent, [], 0
        data = answers[0] if len(answers) == 1 else bytearray().join(answers)
        # It takes what bytes can be made of, whatever its signature says.
        try:
            await self._stream.send(cast("bytes", data))
        except _GONE as gone:
            raise CloseConnection from gone
        return True

    def _decode(self, frame: memoryview) -> tuple[RequestHeader, Message | None]:
        """Without the request for an ApiVersions whose version doesn't exist: that alone gets an answer."""
        if len(frame) < 8:
            raise CloseConnection
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
        if not is_offered(self._broker.profile, api_key, version):
            if api_key == API_VERSIONS:
                return RequestHeader(api_key, version, correlation_id), None
            self._warn(f"a request for API {api_key} in version {version}, which isn't offered")
            raise CloseConnection
        try:
            return _read_request(frame)
        except DecodeError as problem:
            self._warn("a request that can't be read", problem)
            raise CloseConnection from None

    def _warn(self, what: str, detail: object = "") -> None:
        self._broker.log.event(logging.WARNING, f"{self._connection.peer} sent {what}", detail)


def _read_request(frame: memoryview) -> tuple[RequestHeader, Message]:
    """Unlike `decode_request` it minds no bytes behind the request: Kafka doesn't, and librdkafka leaves some."""
    api_key, version = struct.unpack_from(">hh", frame)
    cls = request_class(api_key)
    header, body = RequestHeader.decode_prefix(
        frame, request_header_version(api_key, version, cls.is_flexible(version))
    )
    return header, cls.decode_prefix(frame, version, body)[0]
