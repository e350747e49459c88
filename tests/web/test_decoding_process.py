"""The process that decodes records: it ends with the console, and nobody keeps others from it."""

from __future__ import annotations

import json
import logging
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from kshare.testing import Broker
from kshare.web import decoding_child, decoding_process
from kshare.web.schema_decoding import SchemaDecoder
from tests.helpers.consoles import DEADLINE_S, eventually, running_console

RECORD = b"\0\0\0\0\x01x"
PAGE = "/records/record?topic=orders&partition=0&offset=0&view=registry"


class DrippingRegistry:
    """Never comes to the end of a schema, and is never silent for long."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            threading.Thread(target=self._serve, args=(listening,), daemon=True).start()
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                self._ended.set()

    def _serve(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                opened, _ = listening.accept()
                threading.Thread(target=self._drip, args=(opened,), daemon=True).start()

    def _drip(self, opened: socket.socket) -> None:
        with opened, suppress(OSError):
            opened.recv(1 << 16)
            self.asked.set()
            opened.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not self._ended.wait(0.2):
                opened.sendall(b" ")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that decode."""
    found: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        found.append(popen(*args, **options))
        return found[-1]

    monkeypatch.setattr("kshare.web.decoding_process.subprocess.Popen", start)
    return found


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A console whose records have all the time they want."""
    monkeypatch.setattr("kshare.web.console.SchemaDecoder", partial(SchemaDecoder, limit_s=1000))


def visit(url: str) -> HTTPConnection:
    """Ask for a page, and don't wait for it."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=DEADLINE_S)
    connection.request("GET", PAGE)
    return connection


@pytest.mark.lengthy
@pytest.mark.usefixtures("patient")
def test_a_console_that_stops_ends_the_process_and_responses(
    kshare_broker: Broker, started: list[subprocess.Popen[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    kshare_broker.create_topic("orders", 1)
    kshare_broker.produce("orders", [RECORD])
    registry = DrippingRegistry()
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)  # it doesn't propagate
    with registry.running() as url:
        with running_console(kshare_broker.bootstrap, schema_registry=url) as console:
            visitor = visit(console.url)
            assert registry.asked.wait(DEADLINE_S)
        response = visitor.getresponse()
        assert response.status == 200
        assert b"the console is being stopped" in response.read()
        assert [process.poll() is None for process in started] == [False]
    logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert not [line for line in caplog.records if line.name.startswith("uvicorn")], caplog.text
    visitor.close()


@pytest.mark.lengthy
def test_the_process_ends_when_the_console_is_killed() -> None:
    registry = DrippingRegistry()
    with registry.running() as url:
        child = subprocess.Popen(
            [sys.executable, "-c", decoding_process.CHILD, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        asked = {"data": "AAAAAAF4", "topic": "orders", "part": "value", "limit": 10}
        with child:
            assert child.stdin is not None
            child.stdin.write(f"{json.dumps({'url': url})}\n{json.dumps(asked)}\n".encode())
            child.stdin.flush()
            assert registry.asked.wait(DEADLINE_S)
            child.stdin.close()
            assert child.wait(DEADLINE_S) == 0


@pytest.mark.lengthy
@pytest.mark.usefixtures("patient")
def test_a_client_that_leaves_gives_its_place_back(
    kshare_broker: Broker, started: list[subprocess.Popen[bytes]]
) -> None:
    kshare_broker.create_topic("orders", 1)
    kshare_broker.produce("orders", [RECORD])
    registry = DrippingRegistry()
    with (
        registry.running() as url,
        running_console(kshare_broker.bootstrap, schema_registry=url) as console,
    ):
        visitor = visit(console.url)
        assert registry.asked.wait(DEADLINE_S)
        visitor.close()
        eventually(lambda: started[0].poll(), lambda status: status is not None)


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_waiting_for_the_records_of_others_has_a_deadline() -> None:
    registry = DrippingRegistry()
    with registry.running() as url:
        decoder = SchemaDecoder(url, limit_s=1000)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(decoder.content, RECORD, "orders", "value", 10, decoder.page_deadline())
                assert await anyio.to_thread.run_sync(registry.asked.wait, DEADLINE_S)
                with anyio.fail_after(DEADLINE_S):
                    soon = anyio.current_time() + 0.2
                    found = await decoder.content(RECORD, "orders", "value", 10, soon)
                tasks.cancel_scope.cancel()
        finally:
            decoder.close()
    assert found.note == "can't be decoded: records of others took too long: try again in a moment"


@pytest.mark.lengthy
def test_the_process_takes_little_memory() -> None:
    """With the console it stays below 300 MB, so most of that isn't the process's."""
    code = "from kshare.web import decoding_child as child; child.limit_memory(); bytearray(130 << 20)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MemoryError" in ended.stderr
    assert decoding_child.MOST_MEMORY <= 150 << 20
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] != decoding_child.MOST_MEMORY, "only the child's"
