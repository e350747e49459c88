"""Whatever clients do, the endpoint serves others, and the block it runs in goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketListener, SocketStream

from kshare.errors import ConfigError, KshareError
from kshare.http import endpoint as tested
from kshare.http.endpoint import MAX_CONNECTIONS, http_endpoint, parse_listen_address
from kshare.http.messages import HttpRequest, HttpResponse
from tests.helpers.running_worker import exchange, get, rest_of

pytestmark = pytest.mark.anyio


def respond(request: HttpRequest) -> HttpResponse:
    if request.path == "/broken":
        raise ValueError("by its author")
    return HttpResponse.text(200, request.path)


@pytest.fixture
async def port(anyio_backend: str) -> AsyncIterator[int]:
    async with http_endpoint(("127.0.0.1", 0), respond) as bound:
        yield bound


async def test_pages(port: int) -> None:
    assert await get(port, "/one?x=1") == (200, "/one\n")
    assert await get(port, "/two") == (200, "/two\n")


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("evil.example:10932", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("localhost:10932", 200),
        ("exporter.localhost", 200),
        ("127.0.0.1", 200),
        ("[::1]:10932", 200),
    ],
)
async def test_other_sites_cannot_read_what_is_for_this_machine(port: int, name: str, status: int) -> None:
    """A browser would let them, if the address of their own name is changed to 127.0.0.1."""
    sent = f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
    assert (await exchange(port, sent)).startswith(f"HTTP/1.1 {status} ".encode())


async def test_the_network_may_use_any_name(anyio_backend: str) -> None:
    """Which names an endpoint has there, it can't know."""
    async with http_endpoint(("0.0.0.0", 0), respond) as port:
        assert (await exchange(port, b"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")).startswith(
            b"HTTP/1.1 200 "
        )


async def test_malformed_requests_are_refused(port: int) -> None:
    assert (await exchange(port, b"\x16\x03\x01 nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert (await exchange(port, b"POST / HTTP/1.1\r\n\r\n" + b"x" * 20_000)).startswith(b"HTTP/1.1 405 ")
    assert (await exchange(port, b"GET / HTTP/1.1\r\n" + b"x" * 9000)).startswith(b"HTTP/1.1 431 ")
    assert (await get(port, "/"))[0] == 200


async def test_a_page_that_raises_is_a_500(port: int, caplog: pytest.LogCaptureFixture) -> None:
    assert await get(port, "/broken") == (500, "this page failed: see the log\n")
    assert "by its author" in caplog.text
    assert (await get(port, "/"))[0] == 200


async def test_slow_clients_get_a_408(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tested, "REQUEST_TIMEOUT_S", 0.05)
    assert (await exchange(port, b"GET / HT")).startswith(b"HTTP/1.1 408 ")


async def test_clients_that_hang_up_are_forgotten(port: int) -> None:
    for sent in (b"", b"GET / HT", b"GET / HTTP/1.1\r\n\r\n"):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            if sent:
                await stream.send(sent)
    assert (await get(port, "/"))[0] == 200


async def test_many_idle_connections_do_not_keep_others_out(port: int) -> None:
    async with AsyncExitStack() as stack:
        idle = [
            await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
            for _ in range(MAX_CONNECTIONS + 1)
        ]
        assert (await get(port, "/"))[0] == 200
        assert await rest_of(idle[0]) == b""  # the oldest was closed


class WithoutDescriptors:
    """A listener that can't accept for a while, as if there were no file descriptors left."""

    def __init__(self, listener: SocketListener, problems: list[Exception]) -> None:
        self._listener = listener
        self._problems = problems
        self.listeners = [self]
        self.extra = listener.extra

    async def accept(self) -> SocketStream:
        if self._problems:
            raise self._problems.pop()
        return await self._listener.accept()

    async def __aenter__(self) -> WithoutDescriptors:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.aclose()


async def test_it_goes_on_when_connections_cannot_be_accepted(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = (await anyio.create_tcp_listener(local_host="127.0.0.1")).listeners[0]
    problems = [OSError(24, "Too many open files"), anyio.BrokenResourceError()]
    flaky = WithoutDescriptors(cast("SocketListener", real), problems)

    async def listen(**_: object) -> WithoutDescriptors:
        return flaky

    monkeypatch.setattr(tested, "PAUSE_S", 0.01)
    monkeypatch.setattr(anyio, "create_tcp_listener", listen)
    async with http_endpoint(("127.0.0.1", 0), respond) as bound:
        assert await get(bound, "/one") == (200, "/one\n")
    assert problems == []
    assert "can't accept connections" in caplog.text


async def test_a_taken_port_is_an_error_that_says_what_to_do(port: int) -> None:
    with pytest.raises(KshareError, match=rf"can't listen on 127\.0\.0\.1:{port} .*choose another address"):
        async with http_endpoint(("127.0.0.1", port), respond):
            pass


async def test_cancelling_the_block_ends_the_endpoint(anyio_backend: str) -> None:
    with anyio.CancelScope() as scope:
        async with http_endpoint(("127.0.0.1", 0), respond) as bound:
            scope.cancel()
            await anyio.sleep_forever()
    with pytest.raises(OSError):
        await anyio.connect_tcp("127.0.0.1", bound)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_listen_address(text) == address


@pytest.mark.parametrize("text", ["", "8080", ":8080", "::1:80", "host:", "host:http", "host:65536", 8080])
def test_addresses_that_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r'such as "127\.0\.0\.1:8080"'):
        parse_listen_address(text)


class _Watched(bytes):
    """Notes the parts that are taken of it."""

    def __init__(self, *_: object) -> None:
        self.taken: list[int] = []

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        self.taken.append(len(part))
        return part


async def test_a_large_body_is_sent_part_by_part(anyio_backend: str) -> None:
    """Copied for each client that doesn't read, pages of 30 MB took 670 MB."""
    rest = _Watched(1_000_000 * b"x")

    async def later(request: HttpRequest) -> HttpResponse:
        await anyio.lowlevel.checkpoint()
        return HttpResponse(200, "text/plain", b"first ", rest)

    async with http_endpoint(("127.0.0.1", 0), later) as bound:
        assert await get(bound, "/") == (200, "first " + 1_000_000 * "x")
    assert sum(rest.taken) == len(rest)
    assert max(rest.taken) <= 64 << 10
