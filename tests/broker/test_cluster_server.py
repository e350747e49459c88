"""A node's listener outlives what clients do to their connections."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from kshare import Producer
from kshare.testing import Broker

_RESET = struct.pack("ii", 1, 0)
"""With this SO_LINGER, closing a socket resets its connection."""


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_connections_that_are_reset_before_they_are_accepted(kshare_broker: Broker) -> None:
    """Port scanners do that. It ended the broker."""
    is_busy, may_go_on = threading.Event(), threading.Event()

    def keep_busy() -> None:
        is_busy.set()
        assert may_go_on.wait(10)

    thread = threading.Thread(target=kshare_broker.call, args=(keep_busy,))
    thread.start()
    assert is_busy.wait(10)
    host, port = kshare_broker.bootstrap.rsplit(":", 1)
    for _ in range(20):
        with socket.create_connection((host, int(port)), 10) as scanner:
            scanner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    may_go_on.set()
    thread.join()
    async with Producer(kshare_broker.bootstrap) as producer:
        assert (await producer.send("orders", b"one")).offset == 0
