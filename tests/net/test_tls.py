"""TLS: trusted and untrusted certificates, client certificates, and mismatched listeners; with the real library."""

from __future__ import annotations

import os
import ssl
import threading
from pathlib import Path

import anyio
import pytest
import trustme

from kshare.errors import AuthenticationFailed, ConfigError, ConnectionLost
from kshare.net.tls import make_context
from kshare.protocol.messages import MetadataRequest, MetadataResponse
from tests.fakes.peer import Conversation, connected, peer, refusal, settings
from tests.net.cancelling import cancelled_at_each_await

pytestmark = pytest.mark.anyio


class Authority:
    """A CA for a test: certificates as files, and TLS contexts for the peer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca_file)

    def context(self, *names: str, asks_for_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(*names).configure_cert(context)
        if asks_for_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            self.authority.configure_trust(context)
        return context

    def own(self, encrypted: bool = False) -> tuple[Path, Path]:
        issued = self.authority.issue_cert("alice")
        cert, key = self.folder / "own.crt", self.folder / "own.key"
        issued.cert_chain_pems[0].write_to_path(cert)
        key.write_bytes(issued.private_key_pem.bytes())
        if encrypted:
            from cryptography.hazmat.primitives import serialization

            plain = serialization.load_pem_private_key(key.read_bytes(), None)
            key.write_bytes(
                plain.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.BestAvailableEncryption(b"hush"),
                )
            )
        return cert, key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def polite(talk: Conversation) -> None:
    await talk.greet()
    while True:
        header, _ = await talk.request(MetadataRequest)
        await talk.response(header, MetadataResponse(cluster_id="safe"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_trusted_authority(authority: Authority, host: str) -> None:
    async with peer(polite, host=host, context=authority.context(host)) as address:
        for options in (
            {"tls": True, "ca_file": authority.ca_file},
            {"tls": ssl.create_default_context(cafile=authority.ca_file)},
        ):
            async with connected(settings(address, **options)) as connection:
                assert (await connection.ask(MetadataRequest([]))).cluster_id == "safe"


async def test_untrusted_authority(authority: Authority) -> None:
    async with peer(polite, context=authority.context("127.0.0.1")) as address:
        problem = await refusal(settings(address, tls=True))
        assert isinstance(problem, AuthenticationFailed)
        assert "isn't signed by an authority that this client trusts" in str(problem)
        assert "ca_file" in str(problem)


@pytest.mark.lengthy
async def test_certificate_for_another_name(authority: Authority) -> None:
    async with peer(polite, context=authority.context("elsewhere.test")) as address:
        problem = await refusal(settings(address, tls=True, ca_file=authority.ca_file))
        assert isinstance(problem, AuthenticationFailed)
        assert "is for another name" in str(problem)
        assert "127.0.0.1" in str(problem)
        unchecked = settings(address, tls=True, ca_file=authority.ca_file, check_hostname=False)
        async with connected(unchecked) as connection:
            assert connection.is_open
        stranger = settings(address, tls=True, check_hostname=False)
        assert isinstance(await refusal(stranger), AuthenticationFailed)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_client_certificate(authority: Authority, encrypted: bool) -> None:
    cert, key = authority.own(encrypted)
    options = {"tls": True, "ca_file": authority.ca_file, "cert_file": cert, "key_file": key}
    options |= {"key_password": "hush"} if encrypted else {}
    context = authority.context("127.0.0.1", asks_for_certificate=True)
    async with peer(polite, context=context) as address:
        async with connected(settings(address, **options)) as connection:
            assert (await connection.ask(MetadataRequest([]))).cluster_id == "safe"
        assert "cert_file" in str(await refusal(settings(address, tls=True, ca_file=authority.ca_file)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in the file system are for POSIX")
def test_certificates_may_come_from_pipes(authority: Authority, tmp_path: Path) -> None:
    """As from a shell's `<(...)`: they can be read once."""
    pipes = []
    for name, source in zip(("cert", "key"), authority.own(encrypted=False), strict=True):
        pipe = tmp_path / name
        os.mkfifo(pipe)
        threading.Thread(target=pipe.write_bytes, args=[Path(source).read_bytes()], daemon=True).start()
        pipes.append(pipe)
    options = {"tls": True, "ca_file": authority.ca_file, "cert_file": pipes[0], "key_file": pipes[1]}
    made: list[object] = []
    reader = threading.Thread(
        target=lambda: made.append(make_context(settings(("127.0.0.1", 9), **options).security)), daemon=True
    )
    reader.start()
    reader.join(10)
    assert made, "it waits for a pipe that it has read already"


@pytest.mark.lengthy
async def test_unusable_certificate_files(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.own(encrypted=True)
    junk = tmp_path / "junk"
    junk.write_text("no certificate")
    files = {"cert_file": cert, "key_file": key}
    for options, says in (
        ({"ca_file": tmp_path / "nowhere"}, "nowhere can't be read: No such file"),
        ({"ca_file": junk}, "no certificates in PEM format"),
        (
            {"cert_file": tmp_path / "nowhere"},
            f"cert_file {tmp_path / 'nowhere'} can't be read: No such file",
        ),
        (
            files | {"key_file": tmp_path / "nokey"},
            f"key_file {tmp_path / 'nokey'} can't be read: No such file",
        ),
        (files, "if the key is encrypted, add key_password"),
        (files | {"key_password": "quiet"}, "can't be used"),
        ({"cert_file": junk}, "can't be used"),
    ):
        problem = await refusal(settings(("127.0.0.1", 9), tls=True, **options))
        assert isinstance(problem, ConfigError)
        assert says in str(problem)
        assert "quiet" not in str(problem)


async def test_tls_with_a_plaintext_listener() -> None:
    async def at_once(talk: Conversation) -> None:
        await talk.stream.receive(5)

    async def after_words(talk: Conversation) -> None:
        await talk.stream.receive(5)
        await talk.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    for script in (at_once, after_words):
        async with peer(script) as address:
            problem = await refusal(settings(address, tls=True))
            assert isinstance(problem, ConnectionLost)
            assert "TLS" in str(problem)


async def test_plaintext_with_a_tls_listener(authority: Authority) -> None:
    async def script(talk: Conversation) -> None:
        await talk.send(b"\x15\x03\x03\x00\x02\x02\x50")
        await talk.silence()

    async with peer(script) as address:
        problem = await refusal(settings(address))
        assert isinstance(problem, ConnectionLost)
        assert "it looks like TLS: add tls=True" in str(problem)


@pytest.mark.lengthy
async def test_silent_tls_listener() -> None:
    async def script(talk: Conversation) -> None:
        await talk.stream.receive()
        await anyio.sleep_forever()

    async with peer(script) as address:
        problem = await refusal(settings(address, tls=True, connect_timeout=1.0))
        assert isinstance(problem, ConnectionLost)
        assert "no TLS handshake within 1 s" in str(problem)


@pytest.mark.lengthy
async def test_slow_tls_connection(authority: Authority) -> None:
    """Over a connection that transmits one byte at a time."""
    async with peer(polite, context=authority.context("127.0.0.1")) as hidden:

        async def wire(talk: Conversation) -> None:
            async with await anyio.connect_tcp(*hidden) as behind, anyio.create_task_group() as tasks:

                async def carry(source: anyio.abc.ByteStream, target: anyio.abc.ByteStream) -> None:
                    try:
                        async for chunk in source:
                            for byte in chunk:
                                await target.send(bytes([byte]))
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        pass
                    tasks.cancel_scope.cancel()

                tasks.start_soon(carry, talk.stream, behind)
                tasks.start_soon(carry, behind, talk.stream)

        async with peer(wire) as address:
            chosen = settings(address, tls=True, ca_file=authority.ca_file)
            async with connected(chosen) as connection:
                assert (await connection.ask(MetadataRequest([]))).cluster_id == "safe"


async def test_nothing_is_left_when_cancelled_at_any_await(authority: Authority) -> None:
    """Open sockets would cause ResourceWarnings, which are errors; running tasks would keep the task group open."""
    async with peer(polite, context=authority.context("127.0.0.1")) as address:
        chosen = settings(address, tls=True, ca_file=authority.ca_file)

        async def connect_and_stay() -> None:
            async with connected(chosen) as connection:
                await connection.ask(MetadataRequest([]))

        await cancelled_at_each_await(connect_and_stay, leap=8)
