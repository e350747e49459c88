"""Floods of connections and of nonsense: they find a limit, and fill no log."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kshare.web.connections import most_connections
from tests.helpers.consoles import DEADLINE_S, eventually, running_console


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Sets limits back."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("descriptors")
def test_the_limit_of_connections_follows_that_of_descriptors() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = []
    for soft in (1024, 500, 200):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        found.append(most_connections(512))
    assert found == [512, 180, 16]


def health(netloc: str) -> int:
    """0 if the connection was closed for another one."""
    connection = HTTPConnection(netloc, timeout=DEADLINE_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


@pytest.mark.lengthy
def test_more_connections_than_descriptors_are_a_few_lines_of_the_log(tmp_path: Path) -> None:
    """There were 66,000 lines, and errors of the log itself."""
    log = tmp_path / "log"
    with log.open("wb") as errors:
        console = subprocess.Popen(
            [sys.executable, "-m", "kshare", "web", "-b", "127.0.0.1:1", "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
        )
    with console, ExitStack() as opened:
        opened.callback(console.kill)
        assert console.stdout is not None
        where = urlsplit(console.stdout.readline().decode().split()[-1])
        most, files = 0, Path(f"/proc/{console.pid}/fd")
        for _ in range(600):
            one = opened.enter_context(socket.socket())
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect((where.hostname, where.port))
            most = max(most, sum(1 for _ in files.iterdir()))
        eventually(lambda: health(where.netloc), lambda status: status == 200)
    assert most < 256
    lines = log.read_text().splitlines()
    assert len(lines) < 10, lines[:20]


@pytest.mark.lengthy
def test_what_is_not_http_is_logged_in_sums(caplog: pytest.LogCaptureFixture) -> None:
    with running_console("127.0.0.1:1") as console:
        where = urlsplit(console.url)
        for _ in range(20):
            with socket.create_connection((where.hostname, where.port), DEADLINE_S) as one:
                one.sendall(b"nonsense\r\n\r\n")
                assert one.recv(100).startswith(b"HTTP/1.1 400")
        eventually(lambda: caplog.text, lambda text: "Invalid HTTP request" in text)
    assert caplog.text.count("Invalid HTTP request") == 2, "the first, and at the end the sum of others"
