"""Requests are read within bounds; everything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.http.messages import MAX_REQUEST, HttpRequest, HttpResponse, read_request

END = b"Host: x\r\n\r\n"


@pytest.mark.parametrize(
    ("received", "path"),
    [
        (b"GET /live HTTP/1.1\r\n" + END, "/live"),
        (b"GET /live HTTP/1.0\r\n\r\n", "/live"),
        (b"GET /ready?verbose=1&x HTTP/1.1\r\n" + END, "/ready"),
        (b"GET /live HTTP/1.1\n\n", "/live"),
        (b"GET /live HTTP/1.1\r\n" + END + b"GET /ready HTTP/1.1\r\n\r\n", "/live"),
    ],
)
def test_path_of_a_request(received: bytes, path: str) -> None:
    request = read_request(received)
    assert isinstance(request, HttpRequest)
    assert request.path == path


@pytest.mark.parametrize(
    ("headers", "host"),
    [
        (b"Host: x", "x"),
        (b"Accept: */*\r\nhost:\tShop.Example:8080 ", "shop.example"),
        (b"HOST: [::1]:8080", "::1"),
        (b"Host: [::1]", "::1"),
        (b"Host: 127.0.0.1", "127.0.0.1"),
        (b"Host:", ""),
        (b"X-Host: x", ""),
    ],
)
def test_the_name_of_a_request(headers: bytes, host: str) -> None:
    request = read_request(b"GET /live HTTP/1.1\r\n" + headers + b"\r\n\r\nHost: in-the-body\r\n")
    assert request == HttpRequest("/live", host)


@pytest.mark.parametrize(
    ("received", "status"),
    [
        (b"POST /live HTTP/1.1\r\n" + END, 405),
        (b"HEAD /live HTTP/1.1\r\n" + END, 405),
        (b"GET /live\r\n\r\n", 400),
        (b"GET /live HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n", 400),
        (b"GET  /live HTTP/1.1\r\n\r\n", 400),
        (b"GET /live HTTP/2.0\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
        (b"GET /live HTTP/1.1\r\n" + b"a" * MAX_REQUEST, 431),
    ],
)
def test_what_is_refused(received: bytes, status: int) -> None:
    response = read_request(received)
    assert isinstance(response, HttpResponse)
    assert response.status == status
    assert response.head.startswith(f"HTTP/1.1 {status} ".encode())


def test_incomplete_request_needs_more() -> None:
    whole = b"GET /live HTTP/1.1\r\n" + END
    assert [read_request(whole[:length]) for length in range(len(whole))] == [None] * len(whole)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(received: bytes) -> None:
    response = read_request(received + b"\r\n\r\n")
    assert isinstance(response, HttpRequest) or response is not None


def test_response_has_its_length_and_ends_the_connection() -> None:
    response = HttpResponse.text(405, "only GET is supported")
    assert response.body == b"only GET is supported\n"
    assert response.head.decode().splitlines() == [
        "HTTP/1.1 405 Method Not Allowed",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Length: 22",
        "Cache-Control: no-store",
        "Connection: close",
        "Allow: GET",
        "",
    ]
