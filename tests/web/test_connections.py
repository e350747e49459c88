"""Connections that do nothing: they have a deadline, and new ones find a place whatever they do."""

from __future__ import annotations

import errno
import socket
import time
from contextlib import ExitStack, suppress
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import pytest

from kshare.web import connections
from kshare.web.connections import BoundedConnection
from tests.helpers.consoles import DEADLINE_S, RunningConsole, eventually, running_console

_MOST = 20
_STYLE = files("kshare.web") / "static" / "console.css"


def connect(console: RunningConsole, sent: bytes = b"") -> socket.socket:
    address = urlsplit(console.url)
    opened = socket.create_connection((address.hostname, address.port), DEADLINE_S)
    opened.sendall(sent)
    return opened


def limited(monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
    made = connections.ConnectionLimits(**limits)
    monkeypatch.setattr("kshare.web.server.bounded_protocol", lambda _: connections.bounded_protocol(made))


def connect_and_never_read(console: RunningConsole, sent: bytes) -> socket.socket:
    """As over a network: with small buffers, most of what the server sends waits in its process."""
    address = urlsplit(console.url)
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 600)
    opened.settimeout(DEADLINE_S)
    opened.connect((address.hostname, address.port))
    opened.sendall(sent)
    return opened


def read_to_end(opened: socket.socket) -> bytes:
    """What came until the server closed the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while part := opened.recv(1 << 16):
            received += part
    return received


@pytest.mark.lengthy
@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: "], ids=["nothing", "half a request"])
def test_silent_connections_do_not_lock_others_out(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    limited(monkeypatch, most=_MOST)
    with running_console("127.0.0.1:1") as console, ExitStack() as stack:
        for _ in range(3 * _MOST):
            stack.enter_context(connect(console, sent))
        assert console.request("/health")[0] == 200
        first = stack.enter_context(connect(console))
        for _ in range(2 * _MOST):
            stack.enter_context(connect(console, sent))
        assert first.recv(1) == b"", "the one that has waited longest is closed"


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /health HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea"],
    ids=["nothing", "half a request", "half of the second"],
)
def test_headers_have_a_deadline(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    limited(monkeypatch, headers_s=0.2)
    with running_console("127.0.0.1:1") as console, connect(console, sent) as opened:
        read_to_end(opened)


_CSS = b"GET /static/console.css HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.lengthy
def test_slow_readers_do_not_lock_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_PIPELINED", 1000)
    limited(monkeypatch, most=_MOST, stalled_s=DEADLINE_S, headers_s=DEADLINE_S)
    with running_console("127.0.0.1:1") as console, ExitStack() as stack:
        for _ in range(2 * _MOST):
            stack.enter_context(connect_and_never_read(console, 100 * _CSS))
        for _ in range(3):
            assert console.request("/health")[0] == 200


@pytest.mark.lengthy
def test_a_response_that_is_not_read_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_PIPELINED", 1000)
    limited(monkeypatch, stalled_s=0.3)
    with running_console("127.0.0.1:1") as console, connect_and_never_read(console, 300 * _CSS) as opened:
        eventually(lambda: is_reset(opened), lambda found: found)


def is_reset(opened: socket.socket) -> bool:
    """Looked at without reading."""
    return opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET


@pytest.mark.lengthy
def test_a_response_that_is_read_slowly_comes_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_PIPELINED", 1000)
    limited(monkeypatch, stalled_s=0.5, headers_s=0.5)
    with running_console("127.0.0.1:1") as console, connect_and_never_read(console, 3 * _CSS) as opened:
        received, until = 0, time.monotonic() + 1.5
        while time.monotonic() < until:
            received += len(opened.recv(2000))
            time.sleep(0.02)
        received += len(read_to_end(opened))
    assert received > 3 * len(_STYLE.read_bytes())


@pytest.mark.lengthy
def test_live_pages_have_no_deadline_and_are_closed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.web.live._QUIET_S", 1.0)
    limited(monkeypatch, most=_MOST, stalled_s=0.1, headers_s=0.1)
    with running_console("127.0.0.1:1") as console, ExitStack() as stack:
        live = stack.enter_context(connect(console, b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        assert b"retry" in live.recv(4096) + live.recv(4096)
        for _ in range(2 * _MOST):
            stack.enter_context(connect(console))
        assert live.recv(4096) != b""


@pytest.mark.lengthy
def test_one_address_has_only_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, of_address=5)
    with running_console("127.0.0.1:1") as console, ExitStack() as stack:
        first = stack.enter_context(connect(console))
        for _ in range(5):
            stack.enter_context(connect(console))
        assert read_to_end(first) == b""


class _Connection:
    """What the limits see of one."""

    def __init__(
        self, network: str, progress_at: float, *, has_user: bool = False, waits: bool = True
    ) -> None:
        self.network = network
        self.progress_at = progress_at
        self.has_user = has_user
        self.waits_for_client = waits
        self.is_closed = False

    def hang_up(self) -> None:
        self.is_closed = True


def test_which_connection_is_closed() -> None:
    """Those without a login first, then those that wait for their client, the longest waiting first."""
    last_to_first = [
        _Connection("a", 1, has_user=True, waits=False),
        _Connection("a", 4, has_user=True),
        _Connection("a", 3, has_user=True),
        _Connection("a", 0, waits=False),
        _Connection("a", 9),
        _Connection("a", 8),
    ]
    limits = connections.ConnectionLimits(len(last_to_first), has_logins=True)
    for connection in last_to_first:
        limits.add(connection)  # type: ignore[arg-type]
    for connection in reversed(last_to_first):
        added = _Connection("b", 10, has_user=True, waits=False)
        limits.add(added)  # type: ignore[arg-type]
        assert connection.is_closed
        limits.discard(connection)  # type: ignore[arg-type]
    assert not added.is_closed


@pytest.mark.lengthy
def test_pipelined_requests_are_bounded() -> None:
    """The page of each is made in turn: thousands at once would make others wait."""
    most = connections.MOST_PIPELINED
    sent = 4 * most * b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running_console("127.0.0.1:1") as console, connect(console, sent) as opened:
        assert 0 < read_to_end(opened).count(b"HTTP/1.1 200") <= most + 1


@pytest.mark.lengthy
def test_a_refused_request_is_the_last_of_its_connection() -> None:
    sent = 5 * b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    with running_console("127.0.0.1:1") as console, connect(console, sent) as opened:
        assert read_to_end(opened).count(b"HTTP/1.1 421") == 1


_REFUSED = b"POST /wire HTTP/1.1\r\nHost: evil.example\r\n"


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 100000\r\n\r\nx", b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"],
    ids=["announced", "chunked"],
)
def test_the_body_of_a_refused_request_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(connections, "UNREAD_S", DEADLINE_S)
    limited(monkeypatch, headers_s=10 * DEADLINE_S)
    with running_console("127.0.0.1:1") as console, connect(console, _REFUSED + body) as opened:
        assert read_to_end(opened).startswith(b"HTTP/1.1 421"), "with more of the body to come"


@pytest.mark.lengthy
def test_the_body_of_a_refused_request_is_thrown_away_unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[object] = []
    next_event = BoundedConnection.next_event

    def counted(self: BoundedConnection) -> Any:
        parsed.append(event := next_event(self))
        return event

    monkeypatch.setattr(BoundedConnection, "next_event", counted)
    sent = _REFUSED + b"Transfer-Encoding: chunked\r\n\r\n"
    with running_console("127.0.0.1:1") as console, connect(console, sent) as opened:
        assert read_to_end(opened).startswith(b"HTTP/1.1 421")
        before = len(parsed)
        with suppress(OSError):  # once the console has seen enough of it
            while True:
                opened.sendall(1000 * b"1\r\nx\r\n")
    assert len(parsed) == before


@pytest.mark.lengthy
@pytest.mark.parametrize("is_refused", [False, True], ids=["served", "refused"])
def test_a_body_of_very_small_parts_is_refused(is_refused: bool) -> None:
    """Each part costs time, whatever is in it."""
    with running_console("127.0.0.1:1") as console:
        headers = (
            _REFUSED
            if is_refused
            else f"POST /wire HTTP/1.1\r\nHost: {urlsplit(console.url).netloc}\r\nCookie: {console.cookie()}\r\n"
            "Content-Type: multipart/form-data; boundary=x\r\n".encode()
        )
        sent = headers + b"Transfer-Encoding: chunked\r\n\r\n" + 1000 * b"1\r\nx\r\n"
        with connect(console, sent) as opened:
            assert read_to_end(opened).startswith(
                (b"HTTP/1.1 400", b"HTTP/1.1 421") if is_refused else b"HTTP/1.1 400"
            )
