"""What is refused before any page sees it: see also `test_access`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from kshare.web import guard
from tests.helpers.consoles import DEADLINE_S, RunningConsole, running_console

_CHUNK = 1000


@pytest.mark.lengthy
def test_a_body_whose_length_is_not_announced_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_BYTES_TO_NAME", 3 * _CHUNK)

    def chunks() -> Iterator[bytes]:
        for _ in range(5):
            yield b"0" * _CHUNK

    with running_console("127.0.0.1:1") as console:
        connection = HTTPConnection(urlsplit(console.url).netloc, timeout=DEADLINE_S)
        connection.request(
            "POST",
            "/wire",
            chunks(),
            {"Content-Type": "multipart/form-data; boundary=x", "Cookie": console.cookie()},
            encode_chunked=True,
        )
        response = connection.getresponse()
        assert response.status == 413
        assert "at most" in response.read().decode()
        connection.close()


@pytest.mark.lengthy
@pytest.mark.parametrize("page", ["/wire", "/group/offsets"])
def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_error(
    caplog: pytest.LogCaptureFixture, page: str
) -> None:
    with running_console("127.0.0.1:1", allow_changes=True) as console:
        logging.getLogger("uvicorn.error").addHandler(caplog.handler)  # it doesn't propagate
        for _ in range(3):
            connection = HTTPConnection(urlsplit(console.url).netloc, timeout=DEADLINE_S)
            connection.putrequest("POST", page)
            for name, value in {**form(console), "Content-Length": "1000"}.items():
                connection.putheader(name, value)
            connection.endheaders(b"text=")
            time.sleep(0.1)
            connection.close()
        assert console.request("/health")[0] == 200
        logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert not [line for line in caplog.records if line.name.startswith("uvicorn")], caplog.text


def form(console: RunningConsole) -> dict[str, str]:
    return {"Content-Type": "application/x-www-form-urlencoded", "Cookie": console.cookie()}


PAGES = ("/wire", "/group/offsets", "/group/settings", "/dead-letters/start", "/dead-letters/stop")


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Cookie": ""}, 403),
        ({"Cookie": "kshare_session=x"}, 403),
        ({"Content-Type": "application/x-www-form-urlencoded; charset=punycode"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded; charset=utf-7"}, 415),
        ({"Content-Type": "text/plain"}, 415),
    ],
    ids=["site", "origin", "session", "other session", "punycode", "utf-7", "text"],
)
def test_forms_are_refused_by_their_headers(headers: dict[str, str], status: int) -> None:
    """Only the headers are sent: what waits for the body hasn't looked at them first."""
    with running_console("127.0.0.1:1", allow_changes=True) as console:
        for page in PAGES:
            connection = HTTPConnection(urlsplit(console.url).netloc, timeout=DEADLINE_S)
            connection.putrequest("POST", page)
            for name, value in {**form(console), "Content-Length": "100000", **headers}.items():
                connection.putheader(name, value)
            connection.endheaders()
            assert connection.getresponse().status == status, page
            connection.close()


@pytest.mark.lengthy
def test_bodies_are_small_where_nothing_is_uploaded() -> None:
    with running_console("127.0.0.1:1", allow_changes=True) as console:
        for page in PAGES:
            headers = form(console) | {"Content-Length": str(guard.MOST_BODY_BYTES + 1)}
            assert console.request(page, headers=headers, method="POST")[0] == 413


@pytest.mark.lengthy
def test_a_form_has_few_fields_and_few_separators() -> None:
    with running_console("127.0.0.1:1", allow_changes=True) as console:
        for page in PAGES:
            for separators, status in ((199, 403), (200, 400)):
                connection = HTTPConnection(urlsplit(console.url).netloc, timeout=DEADLINE_S)
                connection.request("POST", page, b"&" * separators, form(console))
                assert connection.getresponse().status == status
                connection.close()


@pytest.mark.lengthy
def test_to_ask_for_a_page_no_body_is_needed() -> None:
    with running_console("127.0.0.1:1") as console:
        assert console.request("/health", headers={"Content-Length": "1"})[0] == 400


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("mode", "target", "status"),
    [
        ("navigate", "document", 200),
        ("navigate", "iframe", 403),
        ("no-cors", "image", 403),
        ("cors", "empty", 403),
    ],
)
def test_other_sites_may_only_link_here(mode: str, target: str, status: int) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": target}
    with running_console("127.0.0.1:1") as console:
        assert console.request("/wire", headers=headers)[0] == status
