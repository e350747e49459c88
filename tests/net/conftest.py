"""Every test of this room runs on both event loops."""

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
    """A stream of ours and the socket at its other end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield TcpStream(ours), theirs
