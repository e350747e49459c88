"""TLS and SASL with a real broker: which clients can connect to which listener, and the errors of the others."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from kshare.errors import AuthenticationFailed, ConnectionLost, Unsupported
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.net.share_groups import require_share_groups
from kshare.protocol.messages import MetadataRequest, UpdateFeaturesRequest
from kshare.protocol.messages.update_features_request import FeatureUpdateKey
from tests.cli.running import kshare
from tests.integration.conftest import _run
from tools.kafka.certificates import Authority
from tools.kafka.cluster import Cluster
from tools.kafka.jars import TESTED_RELEASES, install
from tools.kafka.listeners import SASL_MECHANISMS, USERS, Listener

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]

NEWEST = TESTED_RELEASES[-1]
SESSION_MS = 2500
_BEARER = "listener.name.sasl_plaintext.oauthbearer"
_SETTINGS = {
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": ",".join([*SASL_MECHANISMS, "OAUTHBEARER"]),
    f"{_BEARER}.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";',
    f"{_BEARER}.connections.max.reauth.ms": str(SESSION_MS),
    "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
}
_EVERY_DOOR = (Listener.TLS, Listener.MUTUAL_TLS, Listener.SASL_PLAINTEXT, Listener.SASL_TLS)
USER = USERS[1]


@pytest.fixture(scope="module")
def secure(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    install(NEWEST)
    yield from _run(Cluster(NEWEST, listeners=_EVERY_DOOR, settings=_SETTINGS), request)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def settings(cluster: Cluster, door: Listener, host: str = "127.0.0.1", **options: Any) -> NetSettings:
    _, port = cluster.nodes[0].address(door)
    return NetSettings.parse(f"{host}:{port}", **options)


def user(mechanism: str, password: str = USER.password) -> dict[str, str]:
    return {"sasl_mechanism": mechanism, "username": USER.name, "password": password}


def believed(cluster: Cluster) -> dict[str, Any]:
    return {"tls": True, "ca_file": cluster.authority.certificate}


def unsecured_token(name: str, seconds: float = 60) -> str:
    """An unsigned JWT, which Kafka accepts if configured so."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": name, "iat": now, "exp": now + seconds})
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
        + "."
    )


async def bootstrap(chosen: NetSettings) -> None:
    async with Pool(chosen) as pool:
        assert (await pool.ask(None, MetadataRequest([]))).brokers
        require_share_groups(await pool.connection(None))


async def refusal(chosen: NetSettings, kind: type[Exception] = AuthenticationFailed) -> str:
    async with Pool(chosen) as pool:
        with pytest.raises(kind) as caught:
            await pool.ask(None, MetadataRequest([]))
    return str(caught.value)


@pytest.mark.parametrize("mechanism", SASL_MECHANISMS)
async def test_sasl(secure: Cluster, mechanism: str) -> None:
    await bootstrap(settings(secure, Listener.SASL_PLAINTEXT, **user(mechanism)))
    await bootstrap(settings(secure, Listener.SASL_TLS, **user(mechanism), **believed(secure)))
    text = await refusal(settings(secure, Listener.SASL_PLAINTEXT, **user(mechanism, "not-it")))
    assert f"{mechanism} as {USER.name} was refused" in text
    assert "not-it" not in text


async def test_tokens(secure: Cluster) -> None:
    bearer: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER"}
    await bootstrap(
        settings(secure, Listener.SASL_PLAINTEXT, token=lambda: unsecured_token("alice"), **bearer)
    )
    text = await refusal(
        settings(secure, Listener.SASL_PLAINTEXT, token=lambda: unsecured_token("alice", -60), **bearer)
    )
    assert "invalid_token" in text


async def test_connections_stay_open_beyond_the_session_lifetime(secure: Cluster) -> None:
    """The broker closes connections whose session has expired. We re-authenticate, so ours stay open."""
    tokens: list[str] = []

    def token() -> str:
        tokens.append(unsecured_token("alice"))
        return tokens[-1]

    async def stay(chosen: NetSettings) -> None:
        async with Pool(chosen) as pool:
            connection = await pool.connection(None)
            until = anyio.current_time() + 2.2 * SESSION_MS / 1000
            while anyio.current_time() < until:
                await connection.ask(MetadataRequest([]))
                await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            stay, settings(secure, Listener.SASL_PLAINTEXT, sasl_mechanism="OAUTHBEARER", token=token)
        )
        tasks.start_soon(stay, settings(secure, Listener.SASL_PLAINTEXT, **user("SCRAM-SHA-256")))
    assert len(tokens) >= 3


async def test_a_mechanism_that_the_broker_does_not_offer(secure: Cluster) -> None:
    bearer: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER", "token": lambda: unsecured_token("alice")}
    text = await refusal(settings(secure, Listener.SASL_TLS, **bearer, **believed(secure)))
    assert set(SASL_MECHANISMS) == set(text.partition("it offers ")[2].split(", "))


async def test_tls(secure: Cluster, tmp_path: Path) -> None:
    for host in ("127.0.0.1", "localhost"):
        await bootstrap(settings(secure, Listener.TLS, host, **believed(secure)))
    stranger = Authority(tmp_path)
    text = await refusal(settings(secure, Listener.TLS, tls=True, ca_file=stranger.certificate))
    assert "isn't signed by an authority that this client trusts" in text
    text = await refusal(settings(secure, Listener.TLS, "127.1", **believed(secure)))
    assert "is for another name" in text
    await bootstrap(settings(secure, Listener.TLS, "127.1", check_hostname=False, **believed(secure)))


async def test_mutual_tls(secure: Cluster, tmp_path: Path) -> None:
    for authority, is_let_in in ((secure.authority, True), (Authority(tmp_path), False)):
        pair = authority.client()
        own: dict[str, Any] = {"cert_file": pair.certificate, "key_file": pair.key}
        chosen = settings(secure, Listener.MUTUAL_TLS, **own, **believed(secure))
        if is_let_in:
            await bootstrap(chosen)
        else:
            assert "rejected this client during the TLS handshake" in await refusal(chosen)
    assert "cert_file" in await refusal(settings(secure, Listener.MUTUAL_TLS, **believed(secure)))


async def test_wrong_listeners(secure: Cluster) -> None:
    text = await refusal(settings(secure, Listener.SASL_PLAINTEXT), ConnectionLost)
    assert "if its listener requires SASL, set sasl_mechanism" in text
    text = await refusal(settings(secure, Listener.PLAINTEXT, **user("PLAIN")))
    assert "no SASL on this listener" in text
    text = await refusal(settings(secure, Listener.TLS), ConnectionLost)
    assert "add tls=True" in text
    text = await refusal(settings(secure, Listener.PLAINTEXT, **believed(secure)), ConnectionLost)
    assert "does its listener use TLS?" in text


async def test_share_groups_switched_off(secure: Cluster) -> None:
    async def set_level(level: int) -> None:
        async with Pool(chosen) as pool:
            update = FeatureUpdateKey("share.version", level, upgrade_type=2 if level == 0 else 1)
            assert (await pool.ask(None, UpdateFeaturesRequest(30_000, [update]))).error_code == 0

    async def complaint() -> str:
        async with Pool(chosen) as pool:
            try:
                require_share_groups(await pool.connection(None))
            except Unsupported as error:
                return str(error)
            return ""

    chosen = settings(secure, Listener.PLAINTEXT)
    assert await complaint() == ""
    await set_level(0)
    try:
        with anyio.fail_after(20):
            while not (text := await complaint()):
                await anyio.sleep(0.05)
        assert "upgrade --feature share.version=1" in text
    finally:
        await set_level(1)
        with anyio.fail_after(20):
            while await complaint():
                await anyio.sleep(0.05)


def test_the_console_tools_authenticate(secure: Cluster, tmp_path: Path) -> None:
    """With TLS and SASL from a Kafka properties file. With a wrong password, they fail."""
    secure.create_topic("console")
    secure.set_group_config("console", {"share.auto.offset.reset": "earliest"})
    file = tmp_path / "client.properties"
    said = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{USER.name}" password="{USER.password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secure.authority.certificate),
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in said.items()))
    where = ("-b", secure.bootstrap_of(Listener.SASL_TLS), "--command-config", str(file))
    produce = ("produce", "-t", "console", *where)
    consume = ("consume", "-t", "console", "-g", "console", "-n", "1", "--timeout-ms", "30000", *where)
    assert kshare(*produce, stdin=b"hello\n").code == 0
    assert kshare(*consume).out == "hello\n"
    file.write_text(file.read_text().replace(USER.password, "not-it"))
    for command in (produce, consume):
        done = kshare(*command, stdin=b"hello\n")
        assert (done.code, done.out) == (1, "")
        assert f"SCRAM-SHA-512 as {USER.name} was refused" in done.err
        assert done.err.count("\n") == 1
        assert "not-it" not in done.err
