"""What is refused before any page sees it: see also `test_access`."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from kshare.web import guard
from tests.helpers.consoles import DEADLINE_S, running_console

_CHUNK = 1000


def test_a_body_whose_length_is_not_announced_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_BODY_BYTES", 3 * _CHUNK)

    def chunks() -> Iterator[bytes]:
        yield b"text="
        for _ in range(5):
            yield b"0" * _CHUNK

    with running_console("127.0.0.1:1") as console:
        connection = HTTPConnection(urlsplit(console.url).netloc, timeout=DEADLINE_S)
        connection.request(
            "POST",
            "/wire",
            chunks(),
            {"Content-Type": "application/x-www-form-urlencoded"},
            encode_chunked=True,
        )
        answer = connection.getresponse()
        assert answer.status == 413
        assert "at most" in answer.read().decode()
        connection.close()
