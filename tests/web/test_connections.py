"""Connections that are silent: they have a deadline, and new ones find a place whatever they do."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from kshare.web import connections
from tests.helpers.consoles import DEADLINE_S, RunningConsole, running_console

_MOST = 20


def connect(console: RunningConsole, sent: bytes = b"") -> socket.socket:
    address = urlsplit(console.url)
    opened = socket.create_connection((address.hostname, address.port), DEADLINE_S)
    opened.sendall(sent)
    return opened


def silent(monkeypatch: pytest.MonkeyPatch, most: int, headers_s: float) -> None:
    made = connections.SilentConnections(most, headers_s)
    monkeypatch.setattr("kshare.web.server.bounded_protocol", lambda: connections.bounded_protocol(made))


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: "], ids=["nothing", "half a request"])
def test_silent_connections_do_not_lock_others_out(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    silent(monkeypatch, _MOST, 60)
    with running_console("127.0.0.1:1") as console, ExitStack() as stack:
        for _ in range(3 * _MOST):
            stack.enter_context(connect(console, sent))
        assert console.request("/health")[0] == 200
        first = stack.enter_context(connect(console))
        for _ in range(2 * _MOST):
            stack.enter_context(connect(console, sent))
        assert first.recv(1) == b"", "the one that has waited longest is closed"


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /health HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea"],
    ids=["nothing", "half a request", "half of the second"],
)
def test_headers_have_a_deadline(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    silent(monkeypatch, _MOST, 0.2)
    with running_console("127.0.0.1:1") as console, connect(console, sent) as opened:
        try:
            while opened.recv(1000):
                pass
        except ConnectionResetError:
            pass
