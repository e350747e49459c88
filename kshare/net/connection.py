"""One stream to one broker: many requests under way at once, each answer to its asker.

Decides when the connection is over: at the end of the stream, at anything that can't be an answer, at long silence.
Then every asker learns why. Never connects again, never repeats a request, knows no request's meaning.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar, cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from kshare.errors import ConnectionLost, DecodeError, KshareError, RequestTimedOut, UnreadableAnswer
from kshare.net.clock import loop_clock
from kshare.net.foreign import lost
from kshare.net.frame_reader import FrameReader
from kshare.net.outbox import Outbox
from kshare.net.readiness import call_when_readable
from kshare.net.settings import NetSettings
from kshare.net.tcp import TcpStream
from kshare.net.versions import BrokerVersions, Range
from kshare.net.waiting import GoOn, Waiting
from kshare.net.wrong_doors import FIRST_WORDS, guess
from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.message import Message, Request

log = logging.getLogger("kshare.net")

ResponseT = TypeVar("ResponseT", bound=Message)

SILENCE = 1.5
"""How many request timeouts a broker may owe an answer, without a single byte, before it is taken for dead."""

_LAST_ID = 2**31 - 1


class Asks(Protocol):
    """Something that requests can be sent through."""

    async def __call__(
        self, request: Request[ResponseT], *, version: int | None = None, timeout: float | None = None
    ) -> ResponseT: ...


class Connection:
    """Made by `kshare.net.handshake`, which also says what the broker speaks."""

    def __init__(self, stream: TcpStream, peer: str, settings: NetSettings) -> None:
        self.peer = peer
        self.versions = BrokerVersions({}, {}, {})
        self._settings = settings
        self._stream = stream
        self._last_id = 0
        self._outbox = Outbox(stream)
        self._frames = FrameReader(stream, settings.max_response_bytes, self._hear)
        self._waiting: dict[int, Waiting] = {}
        self._given_up: set[int] = set()
        self._owed_since: float | None = None
        self._clock = loop_clock()
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
        return await self._answer(request, version, timeout, self._send_in_turn)

    def begin(self, request: Request[Any], go_on: GoOn) -> Waiting:
        """Begins a conversation: asks this, and then whatever `go_on` makes of each answer, until that is None.

        Where nobody else is sending the request leaves now. `go_on` is called as soon as an answer is there, by the
        event loop and not in a task, and the next request leaves in the same moment. `hear_out` has to follow.
        """
        waiting = Waiting(request, 0, go_on)
        if not self._speak(waiting, request):
            waiting.finish()
        return waiting

    async def hear_out(self, waiting: Waiting, *, timeout: float | None = None) -> None:
        """To the end of a conversation; sends what couldn't leave at once. `timeout` is for each answer.

        What `go_on` raised is raised here.
        """
        if waiting.left_to_ask is None:
            await self._answered(waiting, timeout)
        while waiting.left_to_ask is not None:
            waiting = self._place(waiting.left_to_ask, None, waiting.go_on)
            await self._exchange(waiting, timeout, self._send_in_turn)

    @property
    def is_free(self) -> bool:
        """What is begun now leaves at once."""
        return self._error is None and self._outbox.is_free

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Asks]:
        """While it lasts only requests through what it gives leave; those already sent are answered first."""

        async def ask(
            request: Request[ResponseT], *, version: int | None = None, timeout: float | None = None
        ) -> ResponseT:
            return await self._answer(request, version, timeout, self._send)

        async with self._outbox.turn:
            yield ask

    async def ask_for_bytes(
        self, request: Request[Any], *, version: int | None = None, timeout: float | None = None
    ) -> memoryview:
        """The answer's frame, not decoded: for whoever knows better which version it is in."""
        return await self._exchange(self._place(request, version), timeout, self._send_in_turn)

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
            waiting.finish()
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
        try:
            await call_when_readable(self._stream, self._take_frames)
        except DecodeError as error:
            ended = ConnectionLost(f"{self.peer} sent what is no answer: {error}{self._guess()}")
            ended.__cause__ = error
            self.end(ended)
        except Exception as error:
            ending = lost(error, self.peer)
            if isinstance(ending, ConnectionLost):
                ending = ConnectionLost(f"{ending}{self._guess()}")
            self.end(ending)

    def _take_frames(self) -> None:
        for frame in self._frames.read():
            self._deliver(frame)
        self._owed_since = self._clock() if self._waiting or self._given_up else None

    def _hear(self, said: bytes | memoryview) -> None:
        if len(self._opening) < FIRST_WORDS:
            self._opening += said[:FIRST_WORDS]
        self.is_suspect = False

    def _deliver(self, frame: memoryview) -> None:
        if len(frame) < 4:
            raise DecodeError(
                "header", 0, f"an answer of {len(frame)} bytes has no room for its correlation id"
            )
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is not None:
            self._answers += 1
            if waiting.go_on is None or not self._goes_on(waiting, waiting.go_on, frame):
                waiting.frame = frame
                waiting.finish()
        elif correlation_id in self._given_up:
            self._given_up.remove(correlation_id)
            log.debug("an answer from %s came too late and was dropped", self.peer)
        else:
            raise DecodeError("header.correlationId", 0, f"{correlation_id} belongs to no request under way")

    def _guess(self) -> str:
        return guess(
            self._opening, self._settings.security, answers=self._answers, is_waiting=bool(self._waiting)
        )

    # --- sending

    def _place(self, request: Request[Any], version: int | None, go_on: GoOn | None = None) -> Waiting:
        return Waiting(request, self.version_for(type(request)) if version is None else version, go_on)

    async def _answer(
        self, request: Request[ResponseT], version: int | None, timeout: float | None, send: _Send
    ) -> ResponseT:
        waiting = self._place(request, version)
        answer: ResponseT = self._decode(waiting, await self._exchange(waiting, timeout, send))
        return answer

    async def _exchange(self, waiting: Waiting, timeout: float | None, send: _Send) -> memoryview:
        return await self._answered(waiting, timeout, send(waiting, self._written(waiting)))

    async def _answered(
        self, waiting: Waiting, timeout: float | None, sending: Awaitable[None] | None = None
    ) -> memoryview:
        limit = self._settings.request_timeout if timeout is None else timeout
        try:
            with anyio.CancelScope(deadline=waiting.since + limit):
                if sending is not None:
                    await sending
                await waiting.wait()
            while not waiting.is_done and self._clock() < waiting.since + limit:  # it was asked on
                with anyio.CancelScope(deadline=waiting.since + limit):
                    await waiting.wait()
        finally:
            if self._waiting.pop(waiting.correlation_id, None) is not None:
                self._given_up.add(waiting.correlation_id)
        if waiting.error is not None:
            raise waiting.error
        if waiting.frame is not None:
            return waiting.frame
        if self._error is not None:
            raise self._own_error()
        self._suspect_silence()
        raise RequestTimedOut(f"{self.peer} didn't answer {waiting.request.NAME} within {limit:g} s")

    def _written(self, waiting: Waiting) -> bytes:
        """The request's frame; from here on an answer is waited for."""
        self._last_id = waiting.correlation_id = self._last_id % _LAST_ID + 1
        frame = encode_request(
            waiting.request, waiting.version, waiting.correlation_id, self._settings.client_id
        )
        waiting.since = self._clock()
        return bytes(frame)

    async def _send_in_turn(self, waiting: Waiting, frame: bytes) -> None:
        async with self._outbox.turn:
            await self._send(waiting, frame)

    async def _send(self, waiting: Waiting, frame: bytes) -> None:
        # Past this, cancellation finds us only where part of the frame may be out.
        await checkpoint_if_cancelled()
        if self._error is not None:
            raise self._own_error()
        self._expect(waiting)
        await self._leave(self._outbox.send(frame))
        if self._error is not None:
            raise self._own_error()

    def _goes_on(self, waiting: Waiting, go_on: GoOn, frame: memoryview) -> bool:
        """Whether something else is being asked already."""
        try:
            request = go_on(self._decode(waiting, frame))
        except Exception as error:
            waiting.error = error
            return False
        return request is not None and self._speak(waiting, request)

    def _decode(self, waiting: Waiting, frame: memoryview) -> Any:
        try:
            return decode_response(waiting.request.RESPONSE, waiting.version, frame)[1]
        except DecodeError as error:
            api = waiting.request.NAME.removesuffix("Request")
            raise UnreadableAnswer(self.peer, api, waiting.version, error) from error

    def _speak(self, waiting: Waiting, request: Request[Any]) -> bool:
        """Whether this is being asked now. If not, the asker has to do that, or finds why it can't be asked."""
        if not self.is_free:
            waiting.left_to_ask = request
            return False
        try:
            waiting.request, waiting.version = request, self.version_for(type(request))
            frame = self._written(waiting)
        except Exception as error:
            waiting.error = error
            return False
        self._expect(waiting)
        try:
            if not self._outbox.begin(frame):
                self.start_task(self._finish_sending)
        except OSError as error:
            self.end(lost(error, self.peer))
        return True

    async def _finish_sending(self) -> None:
        async with self._outbox.turn:
            await self._leave(self._outbox.finish())

    async def _leave(self, sending: Awaitable[None]) -> None:
        """A failure ends the connection, and is nobody's in particular."""
        try:
            await sending
        except anyio.get_cancelled_exc_class():
            self.end(
                ConnectionLost(f"{self.peer} stopped reading in the middle of a request that was given up")
            )
            raise
        except Exception as error:
            self.end(lost(error, self.peer))

    def _expect(self, waiting: Waiting) -> None:
        self._waiting[waiting.correlation_id] = waiting
        if self._owed_since is None:
            self._owed_since = self._clock()

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
    async def __call__(self, waiting: Waiting, frame: bytes) -> None: ...
