"""Connections to the cluster: TCP, TLS, and SASL on behalf of clients that don't authenticate.

Decides how a failure to connect is reported. Later requests and responses are passed through unchanged.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import TypeVar, cast

import anyio

from kshare.errors import ConnectionLost, DecodeError, KshareError
from kshare.net import sasl, tcp, tls
from kshare.net.addresses import Address, format_address
from kshare.net.error_translation import connect_error, connection_error
from kshare.net.frame_reader import FrameReader
from kshare.net.settings import NetSettings
from kshare.net.tcp import TcpStream
from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.frames import MAX_FRAME
from kshare.protocol.message import Message, Request

ResponseT = TypeVar("ResponseT", bound=Message)


class Upstream:
    def __init__(self, settings: NetSettings) -> None:
        self._settings = settings
        self._context: ssl.SSLContext | None = None

    async def open(self, addresses: Sequence[Address]) -> tuple[TcpStream, Address, tuple[str, int]]:
        """Connects to the first address that responds. Returns the stream, that address, its IP address and port."""
        problem: KshareError = ConnectionLost("no address to connect to")
        for address in addresses:
            try:
                with anyio.fail_after(self._settings.connect_timeout):
                    stream, where = await self._open(address)
                    return stream, address, where
            except TimeoutError:
                peer = format_address(address)
                problem = ConnectionLost(
                    f"can't reach {peer}: no response within {self._settings.connect_timeout:g} s"
                )
            except KshareError as error:
                problem = error
        raise problem

    async def _open(self, address: Address) -> tuple[TcpStream, tuple[str, int]]:
        host, port = address
        peer = format_address(address)
        security = self._settings.security
        if security.tls and self._context is None:
            self._context = await anyio.to_thread.run_sync(tls.make_context, security)
        stream: TcpStream | None = None
        try:
            stream = await tcp.connect(host, port)
            where = stream.peer
            if self._context is not None:
                stream = await tls.wrap(stream, self._context, host)
            if security.sasl_mechanism:
                await sasl.authenticate(_Asker(stream, self._settings, peer), security, host, peer)
            return stream, where
        except BaseException as error:
            if stream is not None:
                with anyio.CancelScope(shield=True):
                    await anyio.aclose_forcefully(stream)
            if isinstance(error, Exception):
                raise connect_error(error, peer) from error
            raise


class _Asker:
    """Sends requests one after another, each when the response to the previous one has arrived."""

    def __init__(self, stream: TcpStream, settings: NetSettings, peer: str) -> None:
        self._stream = stream
        self._settings = settings
        self._peer = peer
        self._frames = FrameReader(stream, MAX_FRAME, lambda data: None)
        self._last_id = 0

    async def __call__(
        self, request: Request[ResponseT], *, version: int | None = None, timeout: float | None = None
    ) -> ResponseT:
        version = type(request).VERSIONS[1] if version is None else version
        self._last_id += 1
        frame = encode_request(request, version, self._last_id, self._settings.client_id)
        response = cast("type[ResponseT]", request.RESPONSE)
        try:
            await self._stream.send(bytes(frame))
            return decode_response(response, version, await self._next_frame())[1]
        except DecodeError as error:
            raise ConnectionLost(f"{self._peer} sent an invalid response: {error}") from None
        except Exception as error:
            raise connection_error(error, self._peer) from error

    async def _next_frame(self) -> memoryview:
        """A request was sent, so exactly one frame arrives."""
        while not (frames := self._frames.read()):
            await anyio.wait_readable(self._stream.socket)
        return frames[0]
