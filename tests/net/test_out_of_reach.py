"""Listeners that accept no connection or never response: bounded waits, errors that name the listener, no busy loop."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest
from anyio.abc import ByteStream

from kshare.errors import ConnectionLost, RequestTimedOut
from kshare.net.backoff import AFTER_S, LOG_INTERVAL_S, Outage
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.messages import MetadataRequest
from tests.fakes.nodes import hanging_up, many, mute, name_of, naming, silent
from tests.fakes.peer import Conversation, HungUpError, Script, peer, settings
from tests.fakes.wall import Wall

pytestmark = pytest.mark.anyio
DEADLINE_S = 30.0


@pytest.fixture
def wall() -> Iterator[Wall]:
    with Wall() as one:
        yield one


async def why_not(chosen: NetSettings) -> str:
    with anyio.fail_after(DEADLINE_S):
        async with Pool(chosen) as pool:
            with pytest.raises(ConnectionLost) as caught:
                await pool.bootstrap()
    return str(caught.value)


@pytest.mark.lengthy
async def test_listener_that_accepts_nothing(wall: Wall) -> None:
    text = await why_not(settings(wall.address, connect_timeout=0.3))
    assert text == f"can't reach {wall.text}: no TCP connection within 0.3 s"


@pytest.mark.lengthy
async def test_request_timeout_also_limits_connecting(wall: Wall) -> None:
    text = await why_not(settings(wall.address, connect_timeout=20.0, request_timeout=0.3))
    assert text == f"can't reach {wall.text}: not connected within 0.3 s (no TCP connection)"


@pytest.mark.lengthy
async def test_listener_that_never_responses() -> None:
    async with peer(mute) as address:
        where = "{}:{}".format(*address)
        text = await why_not(settings(address, connect_timeout=2.0))
        assert text == f"can't reach {where}: no response to ApiVersions within 2 s"
        text = await why_not(settings(address, request_timeout=2.0))
        assert text.startswith(f"can't reach {where}: ")
        assert "ApiVersions" in text
        assert "within 2 s" in text
        text = await why_not(settings(address, connect_timeout=2.0, tls=True))
        assert text == f"can't reach {where}: no TLS handshake within 2 s"


@pytest.mark.lengthy
async def test_bootstrap_addresses_share_the_time(wall: Wall) -> None:
    async with peer(mute) as second:
        text = await why_not(many(wall.address, second, connect_timeout=20.0, request_timeout=0.6))
    assert wall.text in text
    assert "{}:{}".format(*second) in text


@pytest.mark.lengthy
async def test_broker_that_only_responses_api_versions_is_skipped() -> None:
    """Repeated, because the order of addresses is random."""
    async with peer(silent) as first, peer(naming("lively")) as second:
        for _ in range(8):
            with anyio.fail_after(DEADLINE_S):
                async with Pool(many(first, second, request_timeout=1.0)) as pool:
                    connection = await pool.bootstrap()
                    assert connection.peer == "{}:{}".format(*second)


@pytest.mark.lengthy
async def test_all_brokers_respond_only_to_api_versions() -> None:
    async with peer(silent) as first, peer(silent) as second:
        with anyio.fail_after(DEADLINE_S):
            async with Pool(many(first, second, request_timeout=1.0)) as pool:
                with pytest.raises(RequestTimedOut) as caught:
                    await pool.bootstrap()
    for host, port in (first, second):
        assert f"{host}:{port} didn't respond to MetadataRequest within" in str(caught.value)


@pytest.mark.lengthy
async def test_waiting_for_another_attempt_ends_at_the_own_deadline(wall: Wall) -> None:
    async with Pool(settings(wall.address)) as pool, anyio.create_task_group() as tasks:
        pool.learn({1: (*wall.address, None)})
        tasks.start_soon(pool.connection, 1)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(
            ConnectionLost, match=rf"{wall.text}: not connected within 0.1 s \(another attempt"
        ):
            await pool.connection(1, timeout=0.1)
        tasks.cancel_scope.cancel()


@pytest.mark.lengthy
async def test_broker_with_an_overdue_response_is_skipped() -> None:
    """Its fetch connection timed out, so a request that any broker can respond is sent to another."""

    async def responses_no_second_question(talk: Conversation) -> None:
        await naming("first")(talk)

    stalled = False

    async def stalling(talk: Conversation) -> None:
        await (silent if stalled else responses_no_second_question)(talk)

    async with peer(stalling) as first, peer(naming("other")) as second, Pool(settings(first)) as pool:
        assert await name_of(pool, None) == "first"
        stalled = True
        pool.learn({1: (*first, None), 2: (*second, None)})
        with pytest.raises(RequestTimedOut):
            await name_of(pool, 1, purpose="fetch", timeout=1.0)
        assert await name_of(pool, None) == "other"


_QUICK = {"connect_timeout": 0.2, "request_timeout": 0.5, "backoff_min": 0.05, "backoff_max": 0.4}
_MOST_TRIES = 12
"""Within two seconds: pauses of 0.05, 0.1, 0.2, 0.4, 0.4, ... seconds, each up to a fifth shorter."""


async def _try_for_two_seconds(pool: Pool) -> int:
    tries = 0
    with anyio.move_on_after(2.0):
        while True:
            tries += 1
            with pytest.raises((ConnectionLost, RequestTimedOut)):
                await pool.ask(None, MetadataRequest([]))
    return tries


async def _is_back(pool: Pool) -> None:
    with anyio.fail_after(DEADLINE_S):
        while True:
            try:
                assert await name_of(pool, None) == "back"
                return
            except (ConnectionLost, RequestTimedOut):
                pass


@pytest.mark.lengthy
@pytest.mark.parametrize("down", [hanging_up, mute, silent], ids=["hangs up", "mute", "versions only"])
async def test_failing_broker_is_retried_without_a_busy_loop_and_used_again(down: Script) -> None:
    greeted = 0
    up: Script | None = None

    async def script(talk: Conversation) -> None:
        nonlocal greeted
        greeted += 1
        await (up or down)(talk)

    async with peer(script) as address, Pool(settings(address, **_QUICK)) as pool:
        assert await _try_for_two_seconds(pool) <= _MOST_TRIES
        assert greeted <= _MOST_TRIES
        up = naming("back")
        await _is_back(pool)


@pytest.mark.lengthy
async def test_listener_that_accepts_nothing_is_retried_without_a_busy_loop_and_used_again(
    wall: Wall,
) -> None:
    async def serve(stream: ByteStream) -> None:
        async with stream:
            with suppress(HungUpError):
                await naming("back")(Conversation(stream))

    host, port = wall.address
    async with Pool(settings(wall.address, **_QUICK)) as pool:
        assert await _try_for_two_seconds(pool) <= _MOST_TRIES
        wall.close()
        async with (
            await anyio.create_tcp_listener(local_host=host, local_port=port) as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, serve)
            await _is_back(pool)
            tasks.cancel_scope.cancel()


def test_outage_is_reported_at_intervals() -> None:
    outage = Outage("broker:9092")
    assert outage.on_success(0.0) is None
    assert outage.on_failure("refused", 1.0) is None
    assert outage.on_success(2.0) is None, "the outage was never reported, so its end isn't either"
    assert outage.on_failure("refused", 10.0) is None
    assert outage.on_failure("refused", 10.0 + AFTER_S) == (
        "broker:9092 has been unreachable for 3 s, after 2 attempts: refused; retrying"
    )
    assert outage.on_failure("refused", 11.0 + AFTER_S) is None
    assert outage.is_on
    told = outage.on_failure("no response", 10.0 + AFTER_S + LOG_INTERVAL_S)
    assert told == "broker:9092 has been unreachable for 33 s, after 4 attempts: no response; retrying"
    assert outage.on_success(50.0) == "broker:9092 is reachable again after 40 s and 4 failed attempts"
    assert not outage.is_on
    assert outage.on_success(51.0) is None


async def test_outage_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.net.backoff.AFTER_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    async with Pool(settings(("127.0.0.1", port), backoff_min=0.05)) as pool:
        for _ in range(3):
            with pytest.raises(ConnectionLost):
                await name_of(pool, None)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 1
    assert f"127.0.0.1:{port} has been unreachable" in lines[0]
    assert "connection refused" in lines[0]
