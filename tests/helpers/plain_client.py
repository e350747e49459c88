"""A minimal client: only the codecs and a blocking socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.frames import FrameSplitter
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import ApiVersionsRequest

ResponseT = TypeVar("ResponseT", bound=Message)

DEADLINE_S = 30.0


class PlainClient:
    """One connection, one request at a time, in the highest version that both sides support."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._splitter = FrameSplitter()
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        response = self.ask(ApiVersionsRequest("kshare-test", "0"), version=3)
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def ask(self, request: Request[ResponseT], version: int | None = None) -> ResponseT:
        if version is None:
            version = self.version_of(request)
        self._correlation_id += 1
        self.connection.sendall(encode_request(request, version, self._correlation_id, "kshare-test"))
        correlation_id, response = decode_response(request.RESPONSE, version, self._frame())
        assert correlation_id == self._correlation_id
        return response  # type: ignore[return-value]

    def version_of(self, request: Message) -> int:
        lowest, highest = self._versions[request.API_KEY]
        version = min(highest, request.VERSIONS[1])
        assert version >= max(lowest, request.VERSIONS[0])
        return version

    def _frame(self) -> memoryview:
        while True:
            chunk = self.connection.recv(65536)
            assert chunk, "the broker hung up"
            for frame in self._splitter.feed(chunk):
                return frame


@contextmanager
def plain_client(address: tuple[str, int]) -> Iterator[PlainClient]:
    with socket.create_connection(address, timeout=DEADLINE_S) as connection:
        yield PlainClient(connection)
