"""Runs the web console in a thread of the test's process."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from kshare.web.config import WebConfig
from kshare.web.server import serve

DEADLINE_S = 60.0

T = TypeVar("T")


@dataclass(frozen=True)
class RunningConsole:
    url: str

    def request(
        self,
        path: str,
        form: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        method: str | None = None,
    ) -> tuple[int, dict[str, str], str]:
        """Status, headers and body. A form is sent as a browser would send it."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=DEADLINE_S)
        body = None if form is None else urlencode(form)
        sent = dict(headers or {})
        if form is not None:
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        connection.request(method or ("GET" if form is None else "POST"), path, body, sent)
        response = connection.getresponse()
        try:
            found = {name.lower(): value for name, value in response.getheaders()}
            return response.status, found, response.read().decode()
        finally:
            connection.close()

    def cookie(self) -> str:
        """Of a browser that has opened a page. It needs no cluster, and no login."""
        return self.request("/wire")[1]["set-cookie"].partition(";")[0]


def session(
    console: RunningConsole, page: str, headers: dict[str, str] | None = None
) -> tuple[dict[str, str], str]:
    """A browser's cookie, besides these headers, and the token of the forms on this page, once it is there."""
    _, found, text = eventually(
        lambda: console.request(page, headers=headers), lambda response: response[0] == 200
    )
    token = re.search(r'name="token" value="([0-9a-f]{64})"', text)
    assert token is not None, text
    return {"Cookie": found["set-cookie"].partition(";")[0], **(headers or {})}, token[1]


def submit(
    console: RunningConsole, page: str, path: str, form: dict[str, str]
) -> tuple[int, dict[str, str], str]:
    """Send a form of this page, as a browser would that has just opened it."""
    headers, token = session(console, page)
    return console.request(path, {**form, "token": token}, headers)


StartConsole = Callable[..., RunningConsole]
"""Starts a console of the test's broker. Takes the options of WebConfig."""


def eventually(read: Callable[[], T], is_wanted: Callable[[T], bool]) -> T:
    """The first value that is wanted: what the console shows follows the cluster after a moment."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_wanted(value := read()):
        assert time.monotonic() < deadline, value
        time.sleep(0.05)
    return value


@contextmanager
def running_console(bootstrap: str, **options: Any) -> Iterator[RunningConsole]:
    ready = threading.Event()
    found: list[tuple[str, Callable[[], None]]] = []

    def on_ready(url: str, stop: Callable[[], None]) -> None:
        found.append((url, stop))
        ready.set()

    config = WebConfig({"bootstrap.servers": bootstrap}, port=0, **{"interval_s": 0.5, **options})
    thread = threading.Thread(target=serve, args=(config, on_ready), name="console")
    thread.start()
    assert ready.wait(DEADLINE_S), "the console didn't start"
    ((url, stop),) = found
    try:
        yield RunningConsole(url.rstrip("/"))
    finally:
        stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the console didn't stop"
