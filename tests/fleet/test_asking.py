"""Whatever responds at a URL, or doesn't: asking ends in time, and says why there is no status."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import anyio
import pytest
import trustme
from anyio.abc import ByteStream

from kshare.fleet import asking
from kshare.fleet.allowed_hosts import FOR_OTHERS, AllowedHosts
from kshare.fleet.asking import ask, ask_all, is_own
from kshare.fleet.http_get import MAX_BODY
from kshare.fleet.no_status import NoStatus, Why
from kshare.worker.watch.status import ProcessStatus
from kshare.worker.watch.status_url import StatusUrl
from tests.fleet.pages import json_response, response, serving

pytestmark = pytest.mark.anyio

LONG_S = 120.0


async def told_by(act: object, limit_s: float = LONG_S) -> NoStatus:
    async with serving(act) as url:  # type: ignore[arg-type]
        told = await ask(url, limit_s=limit_s)
    assert isinstance(told, NoStatus), told
    return told


async def test_a_status(anyio_backend: str) -> None:
    asked: list[bytes] = []

    async def respond(stream: ByteStream) -> None:
        asked.append(await stream.receive())
        await stream.send(json_response())

    async with serving(respond) as url:
        told = await ask(url)
    assert isinstance(told, ProcessStatus)
    assert told.handlers[0].runs[0].offset == 17
    assert asked[0].startswith(b"GET /status HTTP/1.0\r\nHost: 127.0.0.1:%d\r\n" % url.port)


async def test_a_status_without_a_length_byte_by_byte(anyio_backend: str) -> None:
    async def respond(stream: ByteStream) -> None:
        await stream.receive()
        for byte in b"HTTP/1.0 200 OK\n\n" + json_response().partition(b"\r\n\r\n")[2]:
            await stream.send(bytes([byte]))

    async with serving(respond) as url:
        assert isinstance(await ask(url, limit_s=LONG_S), ProcessStatus)


async def stall(stream: ByteStream) -> None:
    await anyio.sleep_forever()


async def stall_within(stream: ByteStream) -> None:
    await stream.send(json_response()[:-5])
    await anyio.sleep_forever()


async def trickle(stream: ByteStream) -> None:
    await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await stream.send(b" ")
        await anyio.sleep(0.01)


@pytest.mark.lengthy
@pytest.mark.parametrize("act", [stall, stall_within, trickle])
async def test_a_server_that_stalls(anyio_backend: str, act: object) -> None:
    assert await told_by(act, 0.2) == NoStatus(Why.TIMED_OUT, "it has not responded within 0.2 s")


async def endless_body(stream: ByteStream) -> None:
    await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await stream.send(b" " * 65_536)


async def endless_head(stream: ByteStream) -> None:
    await stream.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await stream.send(b"X: y\r\n" * 100)


@pytest.mark.parametrize("act", [endless_body, endless_head, response(b" " * 10 * MAX_BODY)])
async def test_too_large(anyio_backend: str, act: object) -> None:
    assert (await told_by(act)).why is Why.TOO_LARGE


@pytest.mark.parametrize(
    ("sent", "why", "text"),
    [
        (b"", Why.CLOSED, "before its response was complete"),
        (b"\x15\x03\x01\x00\x02", Why.CLOSED, "before its response was complete"),
        (json_response()[:-5], Why.CLOSED, "before its response was complete"),
        (b"\x00" * 100 + b"\r\n\r\n", Why.NOT_OK, "isn't HTTP"),
        (
            response(b"", status="302 Found", headers="Location: http://localhost/\r\n"),
            Why.NOT_OK,
            "redirects",
        ),
        (response(b"nothing here", status="404 Not Found"), Why.NOT_OK, "status 404"),
        (response(b"", status="503 "), Why.NOT_OK, "status 503"),
        (response(b"{}", headers="Transfer-Encoding: chunked\r\n"), Why.NOT_OK, "encoded: chunked"),
        (response(b"<html>"), Why.NOT_JSON, "isn't JSON"),
        (response(b"[" * 500_000), Why.NOT_JSON, "isn't JSON"),
        (response(b"{}"), Why.NOT_EXPECTED, "schema must be a whole number"),
        (json_response(schema=99), Why.NOT_EXPECTED, "schema 99"),
        (json_response(state="\x1b[2J"), Why.NOT_EXPECTED, "not \\x1b[2J"),
    ],
)
async def test_other_responses(anyio_backend: str, sent: bytes, why: Why, text: str) -> None:
    told = await told_by(sent)
    assert (told.why, text in told.text) == (why, True), told


async def test_nothing_listens(anyio_backend: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        told = await ask(StatusUrl("http", "127.0.0.1", unused.getsockname()[1]), limit_s=LONG_S)
    assert told == NoStatus(Why.UNREACHABLE, "the connection was refused: nothing listens there")


async def test_a_host_that_is_not_known(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(anyio, "getaddrinfo", unknown)
    told = await ask(StatusUrl("http", "shop-1", 80))
    assert told == NoStatus(Why.UNKNOWN_HOST, "the host shop-1 isn't known")


async def test_a_host_that_is_not_allowed_is_not_connected_to(anyio_backend: str) -> None:
    connected = []

    async def note(stream: ByteStream) -> None:
        connected.append(stream)

    async with serving(note) as url:
        told = await ask(url, FOR_OTHERS)
        by_name = await ask(StatusUrl("http", "localhost", url.port), FOR_OTHERS)
        assert isinstance(told, NoStatus)
        assert isinstance(by_name, NoStatus)
        assert told.why is by_name.why is Why.NOT_ALLOWED
        assert connected == []
        await ask(url, AllowedHosts.parse(["127.0.0.0/8"]))
        assert len(connected) == 1


async def test_the_next_address_is_tried(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def addresses(host: str, port: int, **_: object) -> list[object]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("127.0.0.2", "127.0.0.1")
        ]

    async with serving(json_response()) as url:
        monkeypatch.setattr(anyio, "getaddrinfo", addresses)
        assert isinstance(await ask(StatusUrl("http", "shop", url.port), limit_s=LONG_S), ProcessStatus)


async def test_tls(anyio_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with serving(json_response(), context) as url:
        told = await ask(url, limit_s=LONG_S)
        assert isinstance(told, NoStatus)
        assert (told.why, "certificate verify failed" in told.text) == (Why.UNREACHABLE, True)
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert isinstance(await ask(url, limit_s=LONG_S), ProcessStatus)


async def test_tls_with_a_server_that_has_none(anyio_backend: str) -> None:
    async with serving(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        told = await ask(StatusUrl("https", url.host, url.port), limit_s=LONG_S)
    assert isinstance(told, NoStatus)
    assert told.why is Why.UNREACHABLE


@pytest.mark.lengthy
async def test_all_are_asked_at_the_same_time(anyio_backend: str) -> None:
    """One that stalls costs the others nothing."""
    async with serving(stall) as stalled, serving(json_response()) as fine, serving(b"") as closed:
        told = await ask_all([(server, None) for server in (stalled, fine, closed)], limit_s=0.5)
    assert isinstance(told[fine], ProcessStatus)
    assert [getattr(told[server], "why", None) for server in (stalled, closed)] == [Why.TIMED_OUT, Why.CLOSED]


async def test_all_together_may_say_only_so_much(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_SHARES", 4_000)
    monkeypatch.setattr(asking, "_COMMON", 20_000)
    async with (
        serving(json_response(reason="x" * 250)) as small,
        serving(json_response(surplus="x" * 15_000)) as large,
        serving(json_response(surplus="x" * 15_000)) as other,
    ):
        told = await ask_all([(url, None) for url in (large, other, small)], LONG_S)
    assert isinstance(told[small], ProcessStatus)
    refused = [answer for answer in told.values() if isinstance(answer, NoStatus)]
    assert [answer.why for answer in refused] == [Why.TOO_LARGE]
    assert "those of all processes together are too large" in refused[0].text


def test_the_machines_own_addresses() -> None:
    assert is_own("127.0.0.1")
    assert is_own("::1") == is_known("::1")
    for address in ("192.0.2.1", "198.51.100.7", "2001:db8::1", "nonsense"):
        assert not is_own(address)


def is_known(address: str) -> bool:
    """Whether the machine has it."""
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind((address, 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("allowed", [FOR_OTHERS, AllowedHosts.parse(["192.0.2.0/24"])])
async def test_other_addresses_of_the_own_machine_are_asked_only_if_listed(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch, allowed: AllowedHosts
) -> None:
    """As if 192.0.2.1 were the machine's address in its network."""

    async def refuse(url: StatusUrl, address: str) -> bytes:
        raise ConnectionRefusedError(f"asked {address}")

    monkeypatch.setattr(asking, "is_own", lambda address: address == "192.0.2.1")
    monkeypatch.setattr(asking, "http_get", refuse)
    told = await ask(StatusUrl("http", "192.0.2.1", 8080), allowed)
    assert isinstance(told, NoStatus)
    assert told.why is (Why.UNREACHABLE if allowed.is_listed else Why.NOT_ALLOWED)
    elsewhere = await ask(StatusUrl("http", "192.0.2.2", 8080), allowed)
    assert isinstance(elsewhere, NoStatus)
    assert elsewhere.why is Why.UNREACHABLE
