"""Server-sent events: open pages hear of each reading, and a console that ends doesn't wait for them."""

from __future__ import annotations

import base64
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kshare.testing import Broker
from kshare.web.users import user_line
from tests.helpers.consoles import DEADLINE_S, running_console


@pytest.mark.lengthy
def test_each_reading_is_an_event_and_closing_does_not_wait(kshare_broker: Broker) -> None:
    with running_console(kshare_broker.bootstrap) as console:
        stream = HTTPConnection(urlsplit(console.url).netloc, timeout=DEADLINE_S)
        stream.request("GET", "/events")
        response = stream.getresponse()
        assert response.getheader("content-type", "").startswith("text/event-stream")
        assert response.getheader("cache-control") == "no-store"
        numbers: list[int] = []
        while len(numbers) < 3:
            line = response.readline().decode()
            if line.startswith("data: "):
                numbers.append(int(line.removeprefix("data: ")))
        assert numbers == sorted(set(numbers))
        began = time.monotonic()
    assert time.monotonic() - began < DEADLINE_S
    stream.close()


@pytest.mark.lengthy
def test_many_pages_may_be_open_but_one_user_does_not_take_all(kshare_broker: Broker) -> None:
    with running_console(kshare_broker.bootstrap) as console:
        streams = []
        statuses = []
        for _ in range(41):
            stream = HTTPConnection(urlsplit(console.url).netloc, timeout=DEADLINE_S)
            stream.request("GET", "/events")
            response = stream.getresponse()
            statuses.append(response.status)
            streams.append((stream, response))
            response.readline()
        assert statuses == [200] * 40 + [503]
        assert console.request("/health")[0] == 200
        for stream, response in streams:
            response.close()
            stream.close()


@pytest.mark.lengthy
def test_who_was_removed_hears_of_no_further_reading(kshare_broker: Broker, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(user_line("anna", "secret-pass", may_change=False) + "\n")
    users.chmod(0o600)
    login = {"Authorization": f"Basic {base64.b64encode(b'anna:secret-pass').decode()}"}
    with running_console(kshare_broker.bootstrap, users=users) as console:
        stream = HTTPConnection(urlsplit(console.url).netloc, timeout=DEADLINE_S)
        stream.request("GET", "/events", headers=login)
        response = stream.getresponse()
        while not response.readline().startswith(b"data: "):
            assert not response.closed
        users.write_text(user_line("bert", "secret-pass", may_change=False) + "\n")
        response.read()  # to the end
        stream.close()
