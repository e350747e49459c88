"""The pool: shared connections, failing and returning nodes, closing and cancellation."""

from __future__ import annotations

from random import Random

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kshare.errors import AuthenticationFailed, ConnectionLost, RequestTimedOut
from kshare.net.addresses import Address
from kshare.net.backoff import Backoff
from kshare.net.pool import Pool
from kshare.protocol.messages import (
    MetadataRequest,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.fakes.nodes import hanging_up, many, name_of, naming, silent
from tests.fakes.peer import Conversation, peer, settings
from tests.net.cancelling import cancelled_at_each_await

pytestmark = pytest.mark.anyio


async def free_address() -> Address:
    """An address where nothing listens."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        return "127.0.0.1", listener.extra(anyio.abc.SocketAttribute.local_port)


async def test_one_connection_per_node_and_purpose() -> None:
    greeted: list[str] = []
    async with (
        peer(naming("one", greeted)) as one,
        peer(naming("two", greeted)) as two,
        Pool(settings(one)) as pool,
    ):
        assert await name_of(pool, None) == "one"
        pool.learn({1: (*one, None)})
        pool.learn({2: (*two, "rack")})
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(name_of, pool, 1)
                tasks.start_soon(name_of, pool, 2)
                tasks.start_soon(name_of, pool, 2, "fetch")
        assert sorted(greeted) == ["one", "two", "two"]
        shared, other = await pool.connection(2), await pool.connection(2, purpose="fetch")
        assert shared is await pool.connection(2)
        assert shared is not other
        assert await name_of(pool, None) in ("one", "two")
        assert len(greeted) == 3
    assert not shared.is_open
    assert not other.is_open


async def test_waiting_fetch_does_not_block_other_purposes() -> None:
    async with peer(silent) as one, Pool(settings(one)) as pool:
        pool.learn({1: (*one, None)})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.ask, 1, MetadataRequest([]))
            await anyio.wait_all_tasks_blocked()
            other = await pool.connection(1, purpose="other")
            assert other.is_open
            tasks.cancel_scope.cancel()


async def test_unknown_node_is_an_error() -> None:
    async with Pool(settings(await free_address())) as pool:
        with pytest.raises(ConnectionLost, match="address of node 7 isn't known"):
            await name_of(pool, 7)


@pytest.mark.lengthy
async def test_first_working_bootstrap_address_is_used() -> None:
    async def mute(talk: Conversation) -> None:
        await talk.silence()

    async with peer(mute) as dead, peer(naming("alive"), host="::1") as alive:
        nobody = await free_address()
        for seed in range(6):
            async with Pool(many(nobody, dead, alive, connect_timeout=1.0), Random(seed)) as pool:
                assert await name_of(pool, None) == "alive"


async def test_error_names_all_bootstrap_addresses() -> None:
    one, two = await free_address(), await free_address()
    async with Pool(many(one, two)) as pool:
        with pytest.raises(ConnectionLost) as caught:
            await name_of(pool, None)
        for _, port in (one, two):
            assert f"can't reach 127.0.0.1:{port}: connection refused" in str(caught.value)


async def test_refused_login_is_not_retried_at_other_addresses() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        header, _ = await talk.request(SaslHandshakeRequest)
        await talk.response(header, SaslHandshakeResponse(34))

    login = {"sasl_mechanism": "PLAIN", "username": "a", "password": "b"}
    async with peer(script) as one, Pool(settings(one, **login)) as pool:
        with pytest.raises(AuthenticationFailed):
            await name_of(pool, None)


@pytest.mark.lengthy
async def test_broken_connection_is_replaced() -> None:
    greeted: list[str] = []

    async def script(talk: Conversation) -> None:
        greeted.append("x")
        await (hanging_up if len(greeted) < 3 else naming("back"))(talk)

    async with peer(script) as one, Pool(settings(one)) as pool:
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                await name_of(pool, None)
        assert await name_of(pool, None) == "back"
        assert len(greeted) == 3


async def test_retry_waits_for_the_pause_or_fails_if_it_exceeds_the_deadline() -> None:
    nobody = await free_address()
    async with Pool(settings(nobody, backoff_min=5.0, backoff_max=5.0)) as pool:
        pool.learn({1: (*nobody, None)})
        with pytest.raises(ConnectionLost, match=r"connection refused$"):
            await name_of(pool, 1)
        with (
            anyio.fail_after(2),
            pytest.raises(ConnectionLost, match="next attempt comes after the deadline"),
        ):
            await name_of(pool, 1, timeout=3.0)
        with anyio.move_on_after(0.1) as waiting:
            await name_of(pool, 1)
        assert waiting.cancelled_caught, "an attempt before the deadline is waited for"


async def test_pauses_are_waited_for() -> None:
    nobody = await free_address()
    async with Pool(settings(nobody, backoff_min=0.05, backoff_max=0.05)) as pool:
        for _ in range(3):
            with pytest.raises(ConnectionLost, match=r"connection refused$"):
                await name_of(pool, None)


async def test_node_with_a_new_address() -> None:
    async with peer(naming("old")) as old, peer(naming("new")) as new, Pool(settings(old)) as pool:
        pool.learn({1: (*old, None)})
        assert await name_of(pool, 1) == "old"
        pool.learn({1: (*new, None)})
        assert await name_of(pool, 1) == "new"


@pytest.mark.lengthy
async def test_silent_node_is_skipped_when_any_node_will_do() -> None:
    async with peer(silent) as mute, peer(naming("lively")) as lively, Pool(settings(mute)) as pool:
        with pytest.raises(RequestTimedOut):
            await name_of(pool, None, timeout=1.0)
        pool.learn({1: (*mute, None), 2: (*lively, None)})
        for _ in range(3):
            assert await name_of(pool, None) == "lively"


@pytest.mark.lengthy
async def test_timeout_includes_connecting() -> None:
    async def mute(talk: Conversation) -> None:
        await talk.silence()

    async with peer(mute) as one, Pool(settings(one)) as pool:
        pool.learn({1: (*one, None)})
        for node in (None, 1):
            with pytest.raises(ConnectionLost, match="not connected within"):
                await name_of(pool, node, timeout=0.1)


async def test_closing_ends_all_waiting_requests() -> None:
    """Whether they wait for a response, a connection or a pause."""

    async def mute(talk: Conversation) -> None:
        await talk.silence()

    ended: list[str] = []

    async def ask(pool: Pool, node: int) -> None:
        try:
            await pool.ask(node, MetadataRequest([]))
        except ConnectionLost as error:
            ended.append(str(error))

    nobody = await free_address()
    async with peer(silent) as one, peer(mute) as two, anyio.create_task_group() as tasks:
        async with Pool(settings(one, backoff_min=30.0, backoff_max=30.0, request_timeout=60.0)) as pool:
            pool.learn({1: (*one, None), 2: (*two, None), 3: (*nobody, None)})
            with pytest.raises(ConnectionLost):
                await name_of(pool, 3)
            await pool.connection(1)
            for node in (1, 2, 2, 3, 3):
                tasks.start_soon(ask, pool, node)
            await anyio.wait_all_tasks_blocked()
        with pytest.raises(ConnectionLost, match="closed on this side"):
            await name_of(pool, 1)
    assert len(ended) == 5
    assert all("closed on this side" in text for text in ended)


async def test_exception_of_the_block_is_raised_unchanged() -> None:
    async with peer(naming("one")) as one:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with Pool(settings(one)) as pool:
                await pool.connection(None)
                raise ZeroDivisionError


async def test_nothing_is_left_when_cancelled_at_any_await() -> None:
    async with peer(naming("one")) as one:

        async def work() -> None:
            async with Pool(settings(one)) as pool:
                await name_of(pool, None)

        await cancelled_at_each_await(work)


async def test_cancelled_caller_leaves_the_connection_to_others() -> None:
    async with peer(naming("one")) as one, Pool(settings(one)) as pool:
        for steps in range(8):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(name_of, pool, None, str(steps))
                for _ in range(steps):
                    await checkpoint()
                tasks.cancel_scope.cancel()
            assert await name_of(pool, None, purpose=str(steps)) == "one"


def test_backoff_grows_and_is_bounded() -> None:
    backoff = Backoff(0.05, 1.0, Random(1))
    pauses = []
    for _ in range(60):
        backoff.on_failure(100.0)
        pauses.append(backoff.until - 100.0)
    assert 0.04 <= pauses[0] <= 0.06
    assert 0.32 <= pauses[3] <= 0.48
    assert all(0.8 <= pause <= 1.0 for pause in pauses[6:])
    assert len(set(pauses[6:])) > 10
    backoff.on_success()
    backoff.on_failure(0.0)
    assert backoff.until <= 0.06


async def test_rebootstrap_uses_the_bootstrap_servers_again() -> None:
    async with (
        peer(naming("first")) as first,
        peer(naming("second")) as second,
        Pool(settings(first)) as pool,
    ):
        pool.learn({2: (*second, None)})
        assert await name_of(pool, 2) == "second"
        old = await pool.connection(2)
        pool.rebootstrap()
        assert not old.is_open
        assert await name_of(pool, None) == "first"
        with pytest.raises(ConnectionLost, match="address of node 2 isn't known"):
            await pool.connection(2)
