"""SASL with scripted peers: mechanisms, tokens, re-authentication, refusals, and secrets that stay secret."""

from __future__ import annotations

import inspect
import logging
import re
import struct
import subprocess
import sys
import tomllib
import types
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from packaging.requirements import Requirement

from kshare.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionLost,
    KshareError,
    UnreadableResponse,
    Unsupported,
)
from kshare.net import sasl
from kshare.net.settings import MECHANISMS, NetSettings
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import (
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.fakes.peer import (
    RANGES,
    Conversation,
    Script,
    connected,
    peer,
    refusal,
    settings,
    versions_response,
)
from tests.net.cancelling import cancelled_at_each_await

pytestmark = pytest.mark.anyio

UNSUPPORTED_MECHANISM, ILLEGAL_STATE, REFUSED = 33, 34, 58
PLAIN: dict[str, Any] = {"sasl_mechanism": "PLAIN", "username": "alice", "password": "hush"}
SCRAM: dict[str, Any] = PLAIN | {"sasl_mechanism": "SCRAM-SHA-256"}


def bearer(token: Callable[[], str] | Callable[[], Awaitable[str]]) -> dict[str, Any]:
    return {"sasl_mechanism": "OAUTHBEARER", "token": token}


async def choose(talk: Conversation, response: SaslHandshakeResponse | None = None) -> str:
    header, request = await talk.request(SaslHandshakeRequest)
    assert header.request_api_version == 1
    await talk.response(header, response or SaslHandshakeResponse())
    return request.mechanism


async def take(talk: Conversation, response: SaslAuthenticateResponse) -> bytes:
    header, request = await talk.request(SaslAuthenticateRequest)
    await talk.response(header, response)
    return bytes(request.auth_bytes)


async def serve_metadata(talk: Conversation) -> None:
    while True:
        header, _ = await talk.request(MetadataRequest)
        await talk.response(header, MetadataResponse())


def letting_in(*responses: SaslAuthenticateResponse, heard: list[bytes]) -> Script:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await choose(talk)
        for response in responses:
            heard.append(await take(talk, response))  # noqa: PERF401
        await serve_metadata(talk)

    return script


async def test_plain() -> None:
    heard: list[bytes] = []
    async with (
        peer(letting_in(SaslAuthenticateResponse(), heard=heard)) as address,
        connected(settings(address, **PLAIN)) as connection,
    ):
        await connection.ask(MetadataRequest([]))
    assert heard == [b"alice\0alice\0hush"]


async def test_username_is_escaped_in_scram() -> None:
    heard: list[bytes] = []
    async with peer(letting_in(SaslAuthenticateResponse(REFUSED), heard=heard)) as address:
        await refusal(settings(address, **SCRAM | {"username": "a=b,c"}))
    assert re.fullmatch(rb"n,,n=a=3Db=2Cc,r=\w+", heard[0])


async def test_tokens_from_plain_and_async_functions() -> None:
    async def slowly() -> str:
        await checkpoint()
        return "tok"

    for token in (lambda: "tok", slowly, lambda: slowly()):
        heard: list[bytes] = []
        async with (
            peer(letting_in(SaslAuthenticateResponse(), heard=heard)) as address,
            connected(settings(address, **bearer(token))) as connection,
        ):
            await connection.ask(MetadataRequest([]))
        assert heard == [b"n,,\x01auth=Bearer tok\x01\x01"]


async def test_refused_token() -> None:
    heard: list[bytes] = []
    script = letting_in(
        SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'),
        SaslAuthenticateResponse(REFUSED, "no good: secret-token"),
        heard=heard,
    )
    async with peer(script) as address:
        problem = await refusal(settings(address, **bearer(lambda: "secret-token")))
    assert isinstance(problem, AuthenticationFailed)
    assert '{"status":"invalid_token"}' in str(problem)
    assert "secret-token" not in str(problem)
    assert heard[1] == b"\x01"


@pytest.mark.parametrize("wrong", [lambda: "", lambda: None, lambda: b"tok", lambda: "a\x01b", lambda: 1 / 0])
async def test_token_function_that_returns_no_token(wrong: Callable[[], Any]) -> None:
    async with peer(lambda talk: talk.greet()) as address:
        problem = await refusal(settings(address, **bearer(wrong)))
    assert isinstance(problem, AuthenticationFailed)
    assert "token function" in str(problem)


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (SaslHandshakeResponse(UNSUPPORTED_MECHANISM, ["GSSAPI", "OTHER"]), "it offers GSSAPI, OTHER"),
        (SaslHandshakeResponse(UNSUPPORTED_MECHANISM), "it offers none"),
        (SaslHandshakeResponse(ILLEGAL_STATE), "has no SASL on this listener"),
        (SaslHandshakeResponse(42), "INVALID_REQUEST"),
    ],
)
async def test_refused_mechanism(response: SaslHandshakeResponse, says: str) -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await choose(talk, response)
        await talk.silence()

    async with peer(script) as address:
        problem = await refusal(settings(address, **PLAIN))
    assert isinstance(problem, AuthenticationFailed)
    assert says in str(problem)


@pytest.mark.parametrize(
    ("options", "responses", "says"),
    [
        (PLAIN, [SaslAuthenticateResponse(REFUSED, "wrong: hush")], "wrong: ***"),
        (PLAIN, [SaslAuthenticateResponse(REFUSED, None)], "SASL_AUTHENTICATION_FAILED"),
        (PLAIN, [SaslAuthenticateResponse(auth_bytes=b"more")], "did not complete"),
        (SCRAM, [SaslAuthenticateResponse(auth_bytes=b"e=unknown-user")], "(e=unknown-user)"),
        (SCRAM, [SaslAuthenticateResponse(auth_bytes=b"\xff\x00")], "got an invalid response"),
        (SCRAM, [SaslAuthenticateResponse(auth_bytes=b"r=other,s=AAAA,i=4096")], "got an invalid response"),
        (SCRAM, [SaslAuthenticateResponse(auth_bytes=b"")], "got an invalid response"),
        (SCRAM, [SaslAuthenticateResponse(auth_bytes=b"r=mine,s=AAAA,i=4095")], "iteration count 4095"),
        (bearer(lambda: "hush"), [SaslAuthenticateResponse(auth_bytes=b"{}")] * 20, "did not complete"),
    ],
)
async def test_refused_and_invalid_exchanges(
    options: dict[str, Any], responses: list[SaslAuthenticateResponse], says: str
) -> None:
    async with peer(letting_in(*responses, heard=[])) as address:
        problem = await refusal(settings(address, **options))
    assert isinstance(problem, AuthenticationFailed)
    assert says in str(problem)
    assert "hush" not in str(problem)


async def test_broker_without_sasl_authenticate() -> None:
    async def script(talk: Conversation) -> None:
        ranges = {key: rest for key, rest in RANGES.items() if key != SaslAuthenticateRequest.API_KEY}
        await talk.greet(versions_response(ranges))
        await choose(talk)
        await talk.silence()

    async with peer(script) as address:
        assert isinstance(await refusal(settings(address, **PLAIN)), Unsupported)


@pytest.mark.lengthy
async def test_silence_during_authentication() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await choose(talk)
        await talk.silence()

    async with peer(script) as address:
        # long enough to import kafka-python, which the first of these tests does
        problem = await refusal(settings(address, connect_timeout=1.0, **PLAIN))
    assert isinstance(problem, ConnectionLost)
    assert "no SASL authentication within 1 s" in str(problem)


def renewing(lifetime_ms: int, log: list[str], *, refuse_second: bool = False) -> Script:
    """A broker with sessions of this lifetime, which logs its requests."""

    async def script(talk: Conversation) -> None:
        await talk.greet()
        logins = 0
        while True:
            header, request = await talk.request(Message)
            log.append(request.NAME.removesuffix("Request"))
            response: Message = MetadataResponse()
            if isinstance(request, SaslHandshakeRequest):
                logins += 1
                response = SaslHandshakeResponse()
            elif isinstance(request, SaslAuthenticateRequest):
                code = REFUSED if refuse_second and logins > 1 else 0
                response = SaslAuthenticateResponse(code, session_lifetime_ms=lifetime_ms)
            await talk.response(header, response)

    return script


@pytest.mark.lengthy
async def test_reauthentication_in_time_during_requests() -> None:
    asked: list[str] = []
    tokens: list[str] = []

    def token() -> str:
        tokens.append(f"token {len(tokens)}")
        return tokens[-1]

    async with (
        peer(renewing(250, asked)) as address,
        connected(settings(address, **bearer(token))) as connection,
    ):
        with anyio.fail_after(20):
            while len(tokens) < 4:
                await connection.ask(MetadataRequest([]))
    text = " ".join(asked)
    assert text.startswith("SaslHandshake SaslAuthenticate Metadata")
    assert text.count("SaslHandshake SaslAuthenticate") == text.count("SaslHandshake") >= 3


async def test_refused_reauthentication_closes_the_connection() -> None:
    async with (
        peer(renewing(100, [], refuse_second=True)) as address,
        connected(settings(address, **PLAIN)) as connection,
    ):
        with anyio.fail_after(20):
            await connection.wait_closed()
        with pytest.raises(AuthenticationFailed, match="PLAIN as alice was refused"):
            await connection.ask(MetadataRequest([]))


@pytest.mark.lengthy
async def test_without_response_reauthentication_closes_the_connection() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await choose(talk)
        await take(talk, SaslAuthenticateResponse(session_lifetime_ms=100))
        await talk.silence()

    async with (
        peer(script) as address,
        connected(settings(address, request_timeout=1, **PLAIN)) as connection,
    ):
        with anyio.fail_after(20):
            await connection.wait_closed()
        told: list[KshareError] = []
        connection.on_closed(told.append)
        assert "timed out" in str(told[0])


async def test_a_reauthentication_that_has_response_undecodably_closes_the_connection() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await choose(talk)
        await take(talk, SaslAuthenticateResponse(session_lifetime_ms=100))
        await choose(talk)
        header, _ = await talk.request(SaslAuthenticateRequest)
        await talk.send(struct.pack(">iib", 5, header.correlation_id, 0))
        await talk.silence()

    async with peer(script) as address, connected(settings(address, **PLAIN)) as connection:
        with anyio.fail_after(20):
            await connection.wait_closed()
        for _ in range(2):
            with pytest.raises(UnreadableResponse, match="to SaslAuthenticate v2 can't be decoded"):
                await connection.ask(MetadataRequest([]))


async def test_nothing_is_left_when_cancelled_at_any_await() -> None:
    async with peer(letting_in(SaslAuthenticateResponse(), heard=[])) as address:

        async def connect() -> None:
            async with connected(settings(address, **PLAIN)) as connection:
                await connection.ask(MetadataRequest([]))

        await cancelled_at_each_await(connect, leap=4)


async def test_secrets_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for options in (PLAIN, bearer(lambda: "hush")):
        async with (
            peer(letting_in(SaslAuthenticateResponse(), heard=[])) as address,
            connected(settings(address, **options)) as connection,
        ):
            await connection.ask(MetadataRequest([]))
            assert "hush" not in repr(connection)
    assert any(record.name == "kshare.net" for record in caplog.records)
    assert "hush" not in caplog.text


async def test_gssapi_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    async with peer(lambda talk: talk.greet()) as address:
        problem = await refusal(settings(address, sasl_mechanism="GSSAPI"))
    assert isinstance(problem, ConfigError)
    assert "pip install gssapi" in str(problem)


async def test_gssapi(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stub of the package: the order of tokens, and that the last one is sent though the context is complete."""
    monkeypatch.setitem(sys.modules, "gssapi", kerberos())
    heard: list[bytes] = []
    responses = [b"more", b"\x07\x00\x10\x00", b""]
    script = letting_in(
        *(SaslAuthenticateResponse(auth_bytes=response) for response in responses), heard=heard
    )
    options = {"sasl_mechanism": "GSSAPI", "kerberos_domain_name": "broker.test"}
    async with peer(script) as address, connected(settings(address, **options)) as connection:
        await connection.ask(MetadataRequest([]))
    assert heard == [b"ticket for kafka@broker.test", b"done", b"\x01\x00\x10\x00kafka@broker.test"]


def kerberos() -> types.ModuleType:
    class Context:
        complete = False

        def __init__(self, name: str, usage: str) -> None:
            self.name = name

        def step(self, token: bytes | None) -> bytes:
            self.complete = token is not None
            return b"done" if self.complete else b"ticket for " + self.name.encode()

        def unwrap(self, data: bytes) -> types.SimpleNamespace:
            return types.SimpleNamespace(message=data)

        def wrap(self, data: bytes, encrypt: bool) -> types.SimpleNamespace:
            return types.SimpleNamespace(message=data)

    class Name(str):
        def __new__(cls, text: str, name_type: object) -> Name:
            return super().__new__(cls, text)

        def canonicalize(self, _: object) -> Name:
            return self

    module: Any = types.ModuleType("gssapi")
    module.Name = Name
    module.SecurityContext = Context
    module.NameType = types.SimpleNamespace(hostbased_service=1)
    module.MechType = types.SimpleNamespace(kerberos=1)
    return module  # type: ignore[no-any-return]


@pytest.mark.lengthy
def test_sasl_modules_are_imported_on_demand() -> None:
    """Importing kafka-python takes a tenth of a second."""
    check = "import sys, kshare.net.pool; sys.exit('kafka' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafka", None)
    with pytest.raises(ConfigError, match=re.escape("pip install 'kshare[sasl]'")):
        NetSettings.parse("localhost:9092", **PLAIN)


async def test_unsupported_release_of_kafka_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 3.0 its mechanisms were in other modules, and they may move again."""
    monkeypatch.setitem(sys.modules, "kafka.net.sasl", None)
    async with peer(lambda talk: talk.greet()) as address:
        problem = await refusal(settings(address, **PLAIN))
    assert isinstance(problem, ConfigError)
    assert "SASL needs kafka-python 3.0" in str(problem)


def test_kafka_python_has_what_we_use() -> None:
    """Its mechanisms are internal. Run this with a new release before raising the limit in pyproject.toml."""
    from kafka.net.sasl import get_sasl_mechanism
    from kafka.net.sasl.oauth import AbstractTokenProvider

    assert inspect.isabstract(AbstractTokenProvider)
    assert AbstractTokenProvider.__abstractmethods__ <= {"token"}
    for name in MECHANISMS:
        mechanism = get_sasl_mechanism(name)
        for method in ("auth_bytes", "receive", "is_done", "is_authenticated"):
            assert callable(getattr(mechanism, method)), (name, method)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (relied_on,) = map(Requirement, project["optional-dependencies"]["sasl"])
    assert version("kafka-python") in relied_on.specifier
    assert "3.1" not in relied_on.specifier
    assert not [dependency for dependency in project["dependencies"] if dependency.startswith("kafka-python")]


@pytest.mark.parametrize(
    ("options", "host", "said"),
    [
        (PLAIN, "kafka.example", "the password (sasl_mechanism PLAIN) is sent"),
        (bearer(lambda: "tok"), "192.0.2.7", "the token (OAUTHBEARER) is sent"),
        (SCRAM, "kafka.example", ""),
        (PLAIN | {"tls": True}, "kafka.example", ""),
        (PLAIN, "localhost", ""),
        (PLAIN, "127.0.0.1", ""),
    ],
)
async def test_passwords_that_the_network_could_read_are_warned_of_once(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any], host: str, said: str
) -> None:
    async def refuse(request: Request[Any], **_: Any) -> Any:
        return SaslHandshakeResponse(ILLEGAL_STATE)

    sasl.warn_of_plain_text.cache_clear()
    security = settings(("127.0.0.1", 1), **options).security
    for _ in range(3):
        with pytest.raises(AuthenticationFailed):
            await sasl.authenticate(refuse, security, host, f"{host}:9092")
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warned) == bool(said)
    assert all(warning.startswith(f"{said} to brokers without encryption") for warning in warned)
