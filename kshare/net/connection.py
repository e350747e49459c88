"""One stream to one broker: many requests under way at once, each answer to its asker, one task that reads.

Decides when the connection is over: at the end of the stream, at anything that can't be an answer, at long silence.
Then every asker learns why. Never connects again, never repeats a request, knows no request's meaning.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar, cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from kshare.errors import ConnectionLost, DecodeError, KshareError, RequestTimedOut
from kshare.net.clock import loop_clock
from kshare.net.foreign import lost
from kshare.net.frame_reader import FrameReader
from kshare.net.settings import NetSettings
from kshare.net.tcp import TcpStream
from kshare.net.versions import BrokerVersions, Range
from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.message import Message, Request

log = logging.getLogger("kshare.net")

ResponseT = TypeVar("ResponseT", bound=Message)

SILENCE = 1.5
"""How many request timeouts a broker may owe an answer, without a single byte, before it is taken for dead."""

_LAST_ID = 2**31 - 1
_TLS_ALERT, _HTTP = b"\x15\x03", b"HTTP"


class Asks(Protocol):
    """Something that requests can be sent through."""

    async def __call__(
        self, request: Request[ResponseT], *, version: int | None = None, timeout: float | None = None
    ) -> ResponseT: ...


class _Waiting:
    """An asker's place."""

    __slots__ = ("done", "frame")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.frame: memoryview | None = None


class Connection:
    """Made by `kshare.net.handshake`, which also says what the broker speaks."""

    def __init__(self, stream: TcpStream, peer: str, settings: NetSettings) -> None:
        self.peer = peer
        self.versions = BrokerVersions({}, {}, {})
        self._settings = settings
        self._stream = stream
        self._last_id = 0
        self._waiting: dict[int, _Waiting] = {}
        self._given_up: set[int] = set()
        self._owed_since: float | None = None
        self._clock = loop_clock()
        self._sending = anyio.Lock(fast_acquire=True)
        self._opening = b""
        self._answers = 0
        self.is_suspect = False
        """A request timed out, and nothing was heard since."""
        self.is_closed_by_us = False
        self._error: KshareError | None = None
        self._ended = anyio.Event()
        self._on_closed: list[Callable[[KshareError], None]] = []
        self._tasks: TaskGroup | None = None

    def __repr__(self) -> str:
        return f"<Connection to {self.peer}, {'open' if self.is_open else 'closed'}>"

    # --- asking

    async def ask(
        self, request: Request[ResponseT], *, version: int | None = None, timeout: float | None = None
    ) -> ResponseT:
        """The answer, in the highest version that both sides know unless one is given.

        Given up (cancelled or timed out), it leaves the connection of use: its late answer is dropped. The exception
        is a broker that stopped reading in the middle of this very request: then the connection is over.
        """
        version, frame = await self._exchange(request, version, timeout, self._send_in_turn)
        return _decode(request, version, frame)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Asks]:
        """While it lasts only requests through what it gives leave; those already sent are answered first."""

        async def ask(
            request: Request[ResponseT], *, version: int | None = None, timeout: float | None = None
        ) -> ResponseT:
            version, frame = await self._exchange(request, version, timeout, self._send)
            return _decode(request, version, frame)

        async with self._sending:
            yield ask

    async def ask_for_bytes(
        self, request: Request[Any], *, version: int | None = None, timeout: float | None = None
    ) -> memoryview:
        """The answer's frame, not decoded: for whoever knows better which version it is in."""
        return (await self._exchange(request, version, timeout, self._send_in_turn))[1]

    def version_for(self, request: type[Request[Any]]) -> int:
        """The highest version that both sides know; Unsupported if there is none."""
        return self.versions.best(request, self.peer)

    def supports(self, request: type[Request[Any]]) -> Range | None:
        """First and last version that both sides know, or None."""
        return self.versions.common(request)

    # --- its end

    @property
    def is_open(self) -> bool:
        return self._error is None

    @property
    def why_closed(self) -> KshareError | None:
        return self._error

    def on_closed(self, tell: Callable[[KshareError], None]) -> None:
        """`tell` is called once, with the reason, when the connection ends or if it has ended; it must not raise."""
        if self._error is not None:
            tell(self._error)
        else:
            self._on_closed.append(tell)

    async def wait_closed(self) -> None:
        """Until the stream is closed and every task is gone."""
        await self._ended.wait()

    async def aclose(self) -> None:
        """Every pending ask fails; returns when stream and tasks are gone. Nobody at the other end is waited for."""
        self.end(ConnectionLost(f"the connection to {self.peer} was closed on this side"), is_ours=True)
        await self._ended.wait()

    def end(self, error: KshareError, *, is_ours: bool = False) -> None:
        """Over, for this reason. The first reason counts. `is_ours`: nothing is wrong with the broker."""
        if self._error is not None:
            return
        self._error = error
        self.is_closed_by_us = is_ours
        log.debug("connection to %s ended: %s", self.peer, error)
        for waiting in self._waiting.values():
            waiting.done.set()
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        for tell in self._on_closed:
            tell(error)

    # --- its tasks

    def start(self, tasks: TaskGroup) -> None:
        """Begin to read. From now on `tasks` owns the stream: ending that group closes it."""
        tasks.start_soon(self._live, name=f"kshare connection to {self.peer}")

    def start_task(self, run: Callable[[], Any]) -> None:
        """A task that ends with the connection."""
        assert self._tasks is not None, "an answer has come, so the connection lives"
        self._tasks.start_soon(run)

    async def _live(self) -> None:
        try:
            async with anyio.create_task_group() as self._tasks:
                if self._error is None:
                    await self._read()
                self._tasks.cancel_scope.cancel()
        finally:
            self.end(ConnectionLost(f"the connection to {self.peer} was closed on this side"), is_ours=True)
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(self._stream)
            self._ended.set()

    async def _read(self) -> None:
        frames = FrameReader(self._stream, self._settings.max_response_bytes, self._hear)
        try:
            while True:
                self._deliver(await frames.next_frame())
                self._hear(b"")
        except DecodeError as error:
            self.end(ConnectionLost(f"{self.peer} sent what is no answer: {error}{self._guess()}"))
        except Exception as error:
            ending = lost(error, self.peer)
            if isinstance(ending, ConnectionLost):
                ending = ConnectionLost(f"{ending}{self._guess()}")
            self.end(ending)

    def _hear(self, said: bytes | memoryview) -> None:
        if len(self._opening) < len(_HTTP):
            self._opening += said[: len(_HTTP)]
        self.is_suspect = False
        self._owed_since = self._clock() if self._waiting or self._given_up else None

    def _deliver(self, frame: memoryview) -> None:
        if len(frame) < 4:
            raise DecodeError(
                "header", 0, f"an answer of {len(frame)} bytes has no room for its correlation id"
            )
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is not None:
            self._answers += 1
            waiting.frame = frame
            waiting.done.set()
        elif correlation_id in self._given_up:
            self._given_up.remove(correlation_id)
            log.debug("an answer from %s came too late and was dropped", self.peer)
        else:
            raise DecodeError("header.correlationId", 0, f"{correlation_id} belongs to no request under way")

    def _guess(self) -> str:
        """Some wrong doors can be told by what they say first."""
        if self._opening.startswith(_TLS_ALERT):
            return "; it looks like TLS: add tls=True"
        if self._opening.startswith(_HTTP):
            return "; it looks like HTTP: this isn't a Kafka listener"
        security = self._settings.security
        if self._answers == 0 and security.tls is True and security.cert_file is None:
            return "; if its listener asks for a certificate of ours, set cert_file"
        if self._answers == 0 and self._waiting and security.tls is False:
            return "; if its listener asks for TLS or SASL, set tls or sasl_mechanism"
        if self._answers <= 1 and self._waiting and security.sasl_mechanism is None:
            return "; if its listener asks for SASL, set sasl_mechanism"
        return ""

    # --- sending

    async def _exchange(
        self, request: Request[Any], version: int | None, timeout: float | None, send: _Send
    ) -> tuple[int, memoryview]:
        if version is None:
            version = self.version_for(type(request))
        limit = self._settings.request_timeout if timeout is None else timeout
        self._last_id = correlation_id = self._last_id % _LAST_ID + 1
        frame = bytes(encode_request(request, version, correlation_id, self._settings.client_id))
        waiting = _Waiting()
        with anyio.move_on_after(limit):
            try:
                await send(correlation_id, waiting, frame)
                await waiting.done.wait()
            finally:
                if self._waiting.pop(correlation_id, None) is not None:
                    self._given_up.add(correlation_id)
        if waiting.frame is not None:
            return version, waiting.frame
        if self._error is not None:
            raise self._own_error()
        self._suspect_silence()
        raise RequestTimedOut(f"{self.peer} didn't answer {request.NAME} within {limit:g} s")

    async def _send_in_turn(self, correlation_id: int, waiting: _Waiting, frame: bytes) -> None:
        async with self._sending:
            await self._send(correlation_id, waiting, frame)

    async def _send(self, correlation_id: int, waiting: _Waiting, frame: bytes) -> None:
        await (
            checkpoint_if_cancelled()
        )  # Past this, cancellation finds us only where part of the frame may be out.
        if self._error is not None:
            raise self._own_error()
        self._waiting[correlation_id] = waiting
        if self._owed_since is None:
            self._owed_since = self._clock()
        try:
            await self._stream.send(frame)
        except anyio.get_cancelled_exc_class():
            self.end(
                ConnectionLost(f"{self.peer} stopped reading in the middle of a request that was given up")
            )
            raise
        except Exception as error:
            self.end(lost(error, self.peer))
            raise self._own_error() from None

    def _own_error(self) -> KshareError:
        """A new exception for each asker: one that is shared would collect everyone's tracebacks."""
        error = cast("KshareError", self._error)
        own = type(error)(str(error))
        own.__cause__ = error.__cause__
        return own

    def _suspect_silence(self) -> None:
        self.is_suspect = True
        if self._owed_since is None:
            return
        silent = self._clock() - self._owed_since
        if silent >= SILENCE * self._settings.request_timeout:
            self.end(ConnectionLost(f"{self.peer} owes an answer and has been silent for {silent:.0f} s"))


class _Send(Protocol):
    async def __call__(self, correlation_id: int, waiting: _Waiting, frame: bytes) -> None: ...


def _decode(request: Request[ResponseT], version: int, frame: memoryview) -> ResponseT:
    answer = cast("type[ResponseT]", request.RESPONSE)
    return decode_response(answer, version, frame)[1]
