"""A plain socket connected to a broker."""

from __future__ import annotations

import socket
from typing import cast

from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.frames import FrameSplitter
from kshare.protocol.message import Request, ResponseT
from kshare.testing import Broker

DEADLINE_S = 20.0


class Raw:
    """Sends any bytes, and splits what arrives into frames."""

    def __init__(self, broker: Broker) -> None:
        host, _, port = broker.bootstrap.partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
        self._splitter = FrameSplitter()
        self._frames: list[memoryview] = []

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes | bytearray) -> None:
        self.socket.sendall(data)

    def ask(self, request: Request[ResponseT], version: int) -> ResponseT:
        """The response to a request. Fails if the broker closes the connection."""
        self.send(encode_request(request, version, 1, "raw"))
        return self.response(request, version)

    def response(self, request: Request[ResponseT], version: int) -> ResponseT:
        """The response to a request that was sent before."""
        frame = self.frame()
        assert frame is not None, "the broker closed the connection"
        return cast("ResponseT", decode_response(request.RESPONSE, version, frame)[1])

    def frame(self) -> memoryview | None:
        """The next response frame; None if the broker closed the connection."""
        while not self._frames:
            try:
                chunk = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            self._frames += self._splitter.feed(chunk)
        return self._frames.pop(0)
