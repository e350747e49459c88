"""Every test in this directory runs on asyncio and on trio."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kshare.net.tcp import TcpStream


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pair() -> Iterator[tuple[TcpStream, socket.socket]]:
    """A stream of ours and the socket at its other end. A TCP connection, because Unix sockets ignore SO_RCVLOWAT."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setblocking(False)
    with ours, theirs:
        yield TcpStream(ours), theirs
