"""A scripted peer: listens on this machine, reads requests, and responds with any bytes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener

from kshare.errors import KshareError
from kshare.net.addresses import Address
from kshare.net.connection import Connection
from kshare.net.handshake import Dialer
from kshare.net.settings import NetSettings
from kshare.protocol.envelopes import decode_request, encode_response
from kshare.protocol.frames import FrameSplitter
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages.api_versions_response import (
    ApiVersion,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kshare.protocol.messages.request_header import RequestHeader

KNOWN = (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
RANGES = {request.API_KEY: request.VERSIONS for request in KNOWN}

MessageT = TypeVar("MessageT", bound=Message)


class HungUpError(Exception):
    """The client has disconnected; ends a script without an error."""


class Conversation:
    """The peer's side of one connection."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self._splitter = FrameSplitter()
        self._frames: list[memoryview] = []

    async def request(self, kind: type[MessageT]) -> tuple[RequestHeader, MessageT]:
        """The next request, which must be of this kind."""
        while not self._frames:
            try:
                self._frames += self._splitter.feed(await self.stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError):
                raise HungUpError from None
        header, message = decode_request(self._frames.pop(0))
        assert isinstance(message, kind), message
        return header, message

    async def response(self, header: RequestHeader, response: Message, version: int | None = None) -> None:
        version = header.request_api_version if version is None else version
        await self.send(encode_response(response, version, header.correlation_id))

    async def send(self, data: bytes | bytearray, piece: int | None = None) -> None:
        try:
            for start in range(0, len(data), piece or len(data)):
                await self.stream.send(bytes(data[start : start + (piece or len(data))]))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise HungUpError from None

    async def greet(self, response: ApiVersionsResponse | None = None) -> None:
        """Respond to the client's ApiVersions request."""
        header, _ = await self.request(ApiVersionsRequest)
        await self.response(header, response or versions_response())

    async def silence(self) -> None:
        """Read requests without responding until the client disconnects."""
        while True:
            await self.request(Message)


Script: TypeAlias = Callable[[Conversation], Awaitable[None]]


def versions_response(
    ranges: Mapping[int, tuple[int, int]] = RANGES, features: Mapping[str, int] | None = None
) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[ApiVersion(key, first, last) for key, (first, last) in ranges.items()],
        supported_features=[SupportedFeatureKey("share.version", 0, 2)],
        finalized_features=[
            FinalizedFeatureKey(name, level, level)
            for name, level in (features or {"share.version": 1}).items()
        ],
    )


@asynccontextmanager
async def peer(
    script: Script, *, host: str = "127.0.0.1", context: ssl.SSLContext | None = None
) -> AsyncIterator[Address]:
    """Run the script for each connection. Yields the address."""

    async def handle(stream: ByteStream) -> None:
        async with stream:
            try:
                await script(Conversation(stream))
            except HungUpError:
                await anyio.aclose_forcefully(stream)

    listener = await anyio.create_tcp_listener(local_host=host)
    port = listener.extra(SocketAttribute.local_port)
    serving = TLSListener(listener, context, standard_compatible=False) if context else listener
    async with serving, anyio.create_task_group() as tasks:
        tasks.start_soon(serving.serve, handle)
        try:
            yield host, port
        finally:
            tasks.cancel_scope.cancel()


def settings(address: Address, **options: object) -> NetSettings:
    """Timeouts that are long enough for a busy machine; tests that wait for a timeout set a shorter one."""
    host, port = address
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return NetSettings.parse(where, **({"connect_timeout": 20.0, "request_timeout": 20.0} | options))


@asynccontextmanager
async def connected(chosen: NetSettings) -> AsyncIterator[Connection]:
    """A connection that is closed at the end. Errors while connecting are raised as they are, not in a group."""
    problem: KshareError | None = None
    async with anyio.create_task_group() as tasks:
        try:
            connection = await Dialer(chosen).dial(chosen.bootstrap[0], tasks)
        except KshareError as error:
            problem = error
        else:
            try:
                yield connection
            finally:
                tasks.cancel_scope.cancel()
    if problem is not None:
        raise problem
    assert not connection.is_open


async def refusal(chosen: NetSettings) -> KshareError:
    """The error that connecting raises."""
    try:
        async with connected(chosen):
            raise AssertionError("the connection was accepted")
    except KshareError as error:
        return error
