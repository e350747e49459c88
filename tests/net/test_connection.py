"""One connection: each response reaches its caller however the bytes arrive; errors close it with a reason."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kshare.errors import ConnectionLost, DecodeError, EncodeError, KshareError, RequestTimedOut, Unsupported
from kshare.net.connection import Connection
from kshare.net.handshake import Dialer
from kshare.net.pending import PendingRequest
from kshare.protocol.envelopes import encode_response
from kshare.protocol.message import Request
from kshare.protocol.messages import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tests.fakes.peer import RANGES, Conversation, connected, peer, settings, versions_response

pytestmark = pytest.mark.anyio

METADATA = MetadataRequest.VERSIONS[1]


async def response_metadata(talk: Conversation, name: str = "here", piece: int | None = None) -> None:
    header, _ = await talk.request(MetadataRequest)
    response = MetadataResponse(cluster_id=name)
    await talk.send(encode_response(response, header.request_api_version, header.correlation_id), piece)


async def echo(talk: Conversation) -> None:
    await talk.greet()
    while True:
        await response_metadata(talk)


async def test_requests_use_the_highest_common_version() -> None:
    ranges = RANGES | {MetadataRequest.API_KEY: (2, 9), FindCoordinatorRequest.API_KEY: (90, 99)}
    asked: list[int] = []

    async def script(talk: Conversation) -> None:
        await talk.greet(versions_response(ranges))
        while True:
            header, _ = await talk.request(MetadataRequest)
            assert header.client_id == "me"
            asked.append(header.request_api_version)
            await talk.response(header, MetadataResponse())

    async with peer(script) as address, connected(settings(address, client_id="me")) as connection:
        await connection.ask(MetadataRequest([]))
        await connection.ask(MetadataRequest([]), version=5)
        assert asked == [9, 5]
        assert connection.supports(MetadataRequest) == (2, 9)
        assert connection.version_for(MetadataRequest) == 9
        assert connection.supports(FindCoordinatorRequest) is None
        with pytest.raises(Unsupported, match=r"FindCoordinator v90 to v99, kshare v0 to v6.*upgrade kshare"):
            await connection.ask(FindCoordinatorRequest())
        with pytest.raises(Unsupported, match="doesn't support ListOffsets"):
            await connection.ask(ListOffsetsRequest())
        with pytest.raises(EncodeError):
            await connection.ask(MetadataRequest(7))  # type: ignore[arg-type]
        assert connection.is_open


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_response_arriving_one_byte_at_a_time(host: str) -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await response_metadata(talk, "slow", piece=1)

    async with peer(script, host=host) as address, connected(settings(address)) as connection:
        assert (await connection.ask(MetadataRequest([]))).cluster_id == "slow"


async def test_responses_split_at_every_byte() -> None:
    """Two responses in one stream of bytes, split at each position in turn."""
    length = 2 * len(encode_response(MetadataResponse(cluster_id="x"), METADATA, 1))

    async def script(talk: Conversation) -> None:
        await talk.greet()
        for cut in range(1, length):
            both = bytearray()
            for _ in range(2):
                header, _ = await talk.request(MetadataRequest)
                both += encode_response(MetadataResponse(cluster_id="x"), METADATA, header.correlation_id)
            assert len(both) == length
            await talk.send(both[:cut])
            await checkpoint()
            await talk.send(both[cut:])

    async with peer(script) as address, connected(settings(address)) as connection:
        for _ in range(1, length):
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(connection.ask, MetadataRequest([]))


async def test_each_caller_gets_its_own_response() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        requests = [await talk.request(FindCoordinatorRequest) for _ in range(20)]
        for header, request in reversed(requests):
            await talk.response(header, FindCoordinatorResponse(host=request.key))

    got: dict[str, str] = {}

    async def ask(key: str) -> None:
        got[key] = (await connection.ask(FindCoordinatorRequest(key=key), version=2)).host

    async with (
        peer(script) as address,
        connected(settings(address)) as connection,
        anyio.create_task_group() as tasks,
    ):
        for number in range(20):
            tasks.start_soon(ask, f"g{number}")
    assert got == {f"g{number}": f"g{number}" for number in range(20)}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (struct.pack(">i", -1), "frame of -1 bytes announced"),
        (struct.pack(">i", 70_000) + b"x" * 10, "frame of 70000 bytes announced, 65536 are allowed"),
        (struct.pack(">i", 2) + b"xx", "too short for a correlation id"),
        (struct.pack(">ii", 4, 12345), "12345 doesn't belong to any request in flight"),
        (struct.pack(">ii", 4, -5), "-5 doesn't belong to any request in flight"),
    ],
)
async def test_invalid_data_closes_the_connection_with_a_reason(bad: bytes, says: str) -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await talk.request(MetadataRequest)
        await talk.request(MetadataRequest)
        await talk.send(bad)
        await talk.silence()

    reasons: list[str] = []

    async def ask() -> None:
        with pytest.raises(ConnectionLost) as caught:
            await connection.ask(MetadataRequest([]))
        reasons.append(str(caught.value))

    async with peer(script) as address, connected(settings(address, max_response_bytes=65536)) as connection:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
        assert len(reasons) == 2
        assert all(says in reason for reason in reasons)
        with pytest.raises(ConnectionLost, match="an invalid response"):
            await connection.ask(MetadataRequest([]))


async def test_responses_up_to_the_size_limit_are_received() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        for size in (5_000_000, 5_000_001):
            header, _ = await talk.request(SaslAuthenticateRequest)
            await talk.response(header, SaslAuthenticateResponse(auth_bytes=bytes(size)))

    version = SaslAuthenticateRequest.VERSIONS[1]
    frame = encode_response(SaslAuthenticateResponse(auth_bytes=bytes(5_000_000)), version, 1)
    limit = len(frame) - 4
    async with peer(script) as address, connected(settings(address, max_response_bytes=limit)) as connection:
        response = await connection.ask(SaslAuthenticateRequest())
        assert response.auth_bytes == bytes(5_000_000)
        with pytest.raises(ConnectionLost, match=f"{limit + 1} bytes announced, {limit} are allowed"):
            await connection.ask(SaslAuthenticateRequest())


async def test_undecodable_response_only_fails_its_own_request() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        header, _ = await talk.request(MetadataRequest)
        await talk.send(struct.pack(">iiB", 5, header.correlation_id, 0))
        await response_metadata(talk, "fine")

    async with peer(script) as address, connected(settings(address)) as connection:
        with pytest.raises(DecodeError):
            await connection.ask(MetadataRequest([]))
        assert (await connection.ask(MetadataRequest([]))).cluster_id == "fine"


async def test_end_of_stream_fails_every_request_and_is_reported_once() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await response_metadata(talk)
        await talk.request(MetadataRequest)

    told: list[KshareError] = []
    async with peer(script) as address, connected(settings(address)) as connection:
        connection.on_closed(told.append)
        await connection.ask(MetadataRequest([]))
        assert not told
        with pytest.raises(ConnectionLost, match=r"closed the connection$"):
            await connection.ask(MetadataRequest([]))
        await connection.wait_closed()
        assert [type(error) for error in told] == [ConnectionLost]
        assert not connection.is_closed_by_us
        connection.on_closed(told.append)
        assert told == [told[0]] * 2


async def test_connection_closed_at_the_first_request_hints_at_sasl() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await talk.request(MetadataRequest)

    async with peer(script) as address, connected(settings(address)) as connection:
        with pytest.raises(ConnectionLost, match="if its listener requires SASL, set sasl_mechanism"):
            await connection.ask(MetadataRequest([]))


async def test_a_connection_that_was_usable_before_hints_at_nothing() -> None:
    """A broker that stops closes connections, too: the settings were right before."""
    scripts = iter([True, False, False])

    async def script(talk: Conversation) -> None:
        if next(scripts):
            await talk.greet()
            await response_metadata(talk)
            await talk.silence()
        await talk.request(ApiVersionsRequest)  # and then the connection ends

    async with peer(script) as address, anyio.create_task_group() as tasks:
        dialer = Dialer(settings(address))
        first = await dialer.dial(address, tasks)
        await first.ask(MetadataRequest([]))
        with pytest.raises(ConnectionLost, match=r"closed the connection$"):
            await dialer.dial(address, tasks)
        with pytest.raises(ConnectionLost, match="if its listener requires TLS or SASL"):
            await Dialer(settings(address)).dial(address, tasks)
        tasks.cancel_scope.cancel()


async def test_late_response_is_dropped() -> None:
    asked_twice = anyio.Event()

    async def script(talk: Conversation) -> None:
        await talk.greet()
        first, _ = await talk.request(MetadataRequest)
        second, _ = await talk.request(MetadataRequest)
        asked_twice.set()
        await talk.response(first, MetadataResponse(cluster_id="late"))
        await talk.response(second, MetadataResponse(cluster_id="in time"))
        await echo_rest(talk)

    async def echo_rest(talk: Conversation) -> None:
        while True:
            await response_metadata(talk)

    async with peer(script) as address, connected(settings(address)) as connection:
        with pytest.raises(RequestTimedOut, match=r"didn't respond to MetadataRequest within 0.05 s"):
            await connection.ask(MetadataRequest([]), timeout=0.05)
        assert connection.is_suspect
        assert (await connection.ask(MetadataRequest([]))).cluster_id == "in time"
        assert not connection.is_suspect
        assert asked_twice.is_set()
        assert (await connection.ask(MetadataRequest([]))).cluster_id == "here"


@pytest.mark.lengthy
async def test_long_silence_closes_the_connection() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await talk.silence()

    async with peer(script) as address, connected(settings(address, request_timeout=1)) as connection:
        with pytest.raises(RequestTimedOut):
            await connection.ask(MetadataRequest([]), timeout=0.1)
        assert connection.is_open
        with pytest.raises(RequestTimedOut):
            await connection.ask(MetadataRequest([]), timeout=1.5)
        with pytest.raises(ConnectionLost, match="hasn't responded, nor sent anything"):
            await connection.ask(MetadataRequest([]))


async def test_zero_timeout() -> None:
    async with peer(echo) as address, connected(settings(address)) as connection:
        with pytest.raises(RequestTimedOut):
            await connection.ask(MetadataRequest([]), timeout=0)
        with pytest.raises(RequestTimedOut):
            await connection.ask(MetadataRequest([]), timeout=-1)
        assert (await connection.ask(MetadataRequest([]))).cluster_id == "here"


async def test_connection_stays_usable_after_cancelled_requests() -> None:
    async with peer(echo) as address, connected(settings(address)) as connection:
        for steps in range(12):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection.ask, MetadataRequest([]))
                for _ in range(steps):
                    await checkpoint()
                tasks.cancel_scope.cancel()
            assert (await connection.ask(MetadataRequest([]))).cluster_id == "here"


@pytest.mark.lengthy
async def test_peer_that_stops_reading_closes_the_connection() -> None:
    """A partly sent request can't be followed by another one, so the connection is closed."""

    async def script(talk: Conversation) -> None:
        await talk.greet()
        await anyio.sleep_forever()

    big = FindCoordinatorRequest(coordinator_keys=["x" * 30_000] * 1000)
    async with peer(script) as address, connected(settings(address)) as connection:
        with pytest.raises(ConnectionLost, match="stopped reading in the middle of a request"):
            await connection.ask(big, timeout=0.2)
        assert not connection.is_open


@pytest.mark.lengthy
async def test_request_abandoned_before_it_is_sent_is_not_sent() -> None:
    seen: list[int] = []
    go = anyio.Event()

    async def script(talk: Conversation) -> None:
        await talk.greet()
        await go.wait()
        for _ in range(2):
            header, request = await talk.request(FindCoordinatorRequest)
            seen.append(len(request.coordinator_keys))
            await talk.response(header, FindCoordinatorResponse())
        await talk.silence()

    big = FindCoordinatorRequest(coordinator_keys=["x" * 30_000] * 1000)
    async with peer(script) as address, connected(settings(address)) as connection:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.ask, big)
            await anyio.wait_all_tasks_blocked()
            assert not connection.is_free
            with pytest.raises(RequestTimedOut):
                await connection.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"]), timeout=0.05)
            tasks.start_soon(connection.ask, FindCoordinatorRequest(coordinator_keys=["c"]))
            await anyio.wait_all_tasks_blocked()
            go.set()
        assert seen == [1000, 1]
        assert connection.is_free


async def test_closing_does_not_wait_for_responses() -> None:
    async def script(talk: Conversation) -> None:
        await talk.greet()
        await anyio.sleep_forever()

    async def ask() -> None:
        with pytest.raises(ConnectionLost, match="closed on this side"):
            await connection.ask(MetadataRequest([]))

    async with peer(script) as address, connected(settings(address)) as connection:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            await connection.aclose()
            await connection.aclose()
        assert connection.is_closed_by_us
        assert "closed" in repr(connection)


async def test_exclusive_use_of_a_connection() -> None:
    """Requests sent before get responses first; later ones wait."""
    seen: list[str] = []

    async def script(talk: Conversation) -> None:
        await talk.greet()
        while True:
            header, request = await talk.request(FindCoordinatorRequest)
            seen.append(request.key)
            await talk.response(header, FindCoordinatorResponse())

    async def ask(key: str) -> None:
        await connection.ask(FindCoordinatorRequest(key=key), version=2)

    async def too_late() -> None:
        with pytest.raises(RequestTimedOut):
            await connection.ask(FindCoordinatorRequest(), timeout=0.05)
        timed_out.set()

    timed_out = anyio.Event()
    async with (
        peer(script) as address,
        connected(settings(address)) as connection,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(ask, "before")
        await anyio.wait_all_tasks_blocked()
        async with connection.exclusive() as exclusive:
            tasks.start_soon(ask, "meanwhile")
            await anyio.wait_all_tasks_blocked()
            for number in range(3):
                await exclusive(FindCoordinatorRequest(key=str(number)), version=2)
        async with connection.exclusive():
            tasks.start_soon(too_late)
            await timed_out.wait()
    assert seen == ["before", "0", "1", "2", "meanwhile"]


async def test_correlation_ids_restart_before_they_overflow() -> None:
    async with peer(echo) as address, connected(settings(address)) as connection:
        connection._last_id = 2**31 - 3
        for _ in range(5):
            await connection.ask(MetadataRequest([]))
        assert connection._last_id == 3


def coordinator(key: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key=key)


OLD_COORDINATORS = RANGES | {FindCoordinatorRequest.API_KEY: (1, 3)}


@asynccontextmanager
async def talking(
    script: Callable[[Conversation], Awaitable[None]], **options: object
) -> AsyncIterator[Connection]:
    """A connection to a peer whose coordinator requests have one key each."""

    async def greeting(talk: Conversation) -> None:
        await talk.greet(versions_response(OLD_COORDINATORS))
        await script(talk)

    async with peer(greeting) as address, connected(settings(address, **options)) as connection:
        yield connection


async def say_keys(talk: Conversation) -> None:
    while True:
        header, request = await talk.request(FindCoordinatorRequest)
        await talk.response(header, FindCoordinatorResponse(host=request.key))


Following = Callable[[FindCoordinatorResponse], Request[Any] | None]


def until(last: int, heard: list[str]) -> Following:
    def go_on(response: FindCoordinatorResponse) -> FindCoordinatorRequest | None:
        heard.append(response.host)
        following = int(response.host) + 1
        return coordinator(str(following)) if following <= last else None

    return go_on


async def converse(
    connection: Connection, request: Request[Any], following: Following, timeout: float | None = None
) -> None:
    await connection.wait_for_response(send(connection, request, following), timeout=timeout)


def send(connection: Connection, request: Request[Any], following: Following) -> PendingRequest:
    return connection.send(request, on_response=lambda _, response: following(response))


async def test_request_chain_continues_until_the_callback_returns_none() -> None:
    heard: list[str] = []
    async with talking(say_keys) as connection:
        await converse(connection, coordinator("0"), until(9, heard))
        assert heard == [str(number) for number in range(10)]
        assert (await connection.ask(coordinator("on"))).host == "on"


async def test_sent_request_leaves_before_it_is_awaited() -> None:
    seen = anyio.Event()

    async def script(talk: Conversation) -> None:
        header, request = await talk.request(FindCoordinatorRequest)
        seen.set()
        await talk.response(header, FindCoordinatorResponse(host=request.key))

    heard: list[str] = []
    async with talking(script) as connection:
        waiting = send(connection, coordinator("0"), until(0, heard))
        await seen.wait()
        while not heard:
            await checkpoint()
        await connection.wait_for_response(waiting)


async def test_wait_for_response_raises_why_a_request_was_not_sent() -> None:
    async with talking(say_keys) as connection:
        unfit = send(connection, FindCoordinatorRequest(key=7), until(0, []))  # type: ignore[arg-type]
        with pytest.raises(EncodeError):
            await connection.wait_for_response(unfit)
        unknown = send(connection, ListOffsetsRequest(), until(0, []))
        with pytest.raises(Unsupported, match="doesn't support ListOffsets"):
            await connection.wait_for_response(unknown)
        await connection.aclose()
        assert not connection.is_free
        late = send(connection, coordinator("0"), until(0, []))
        with pytest.raises(ConnectionLost, match="closed on this side"):
            await connection.wait_for_response(late)


async def test_request_sent_during_exclusive_use_leaves_afterwards() -> None:
    heard: list[str] = []
    async with talking(say_keys) as connection:
        async with connection.exclusive() as exclusive:
            assert not connection.is_free
            waiting = send(connection, coordinator("0"), until(3, heard))
            assert (await exclusive(coordinator("exclusive"))).host == "exclusive"
            assert not heard
        await connection.wait_for_response(waiting)
    assert heard == ["0", "1", "2", "3"]


@pytest.mark.lengthy
async def test_other_requests_get_responses_during_a_chain() -> None:
    heard: list[str] = []
    async with talking(say_keys) as connection, anyio.create_task_group() as tasks:
        tasks.start_soon(converse, connection, coordinator("0"), until(200, heard))
        while len(heard) < 200:
            assert (await connection.ask(coordinator("me"))).host == "me"


async def test_request_chain_waits_during_exclusive_use() -> None:
    seen: list[str] = []

    async def script(talk: Conversation) -> None:
        while True:
            header, request = await talk.request(FindCoordinatorRequest)
            seen.append(request.key)
            if request.key == "0":
                await go.wait()
            await talk.response(header, FindCoordinatorResponse(host=request.key))

    go = anyio.Event()
    async with talking(script) as connection, anyio.create_task_group() as tasks:
        tasks.start_soon(converse, connection, coordinator("0"), until(1, []))
        await anyio.wait_all_tasks_blocked()
        async with connection.exclusive() as exclusive:
            go.set()
            assert (await exclusive(coordinator("exclusive"))).host == "exclusive"
    assert seen == ["0", "exclusive", "1"]


async def test_exceptions_of_the_callback_reach_the_caller() -> None:
    def fail(_: FindCoordinatorResponse) -> None:
        raise LookupError("nothing to go on with")

    async with talking(say_keys) as connection:
        with pytest.raises(LookupError, match="nothing to go on with"):
            await converse(connection, coordinator("0"), fail)
        with pytest.raises(EncodeError):
            await converse(connection, coordinator("0"), lambda _: FindCoordinatorRequest(key=7))  # type: ignore[arg-type]
        with pytest.raises(Unsupported, match="doesn't support ListOffsets"):
            await converse(connection, coordinator("0"), lambda _: ListOffsetsRequest())
        assert (await connection.ask(coordinator("on"))).host == "on"


@pytest.mark.lengthy
async def test_each_response_of_a_chain_has_its_own_timeout() -> None:
    heard: list[str] = []

    async def script(talk: Conversation) -> None:
        for _ in range(5):
            header, request = await talk.request(FindCoordinatorRequest)
            await anyio.sleep(0.5)
            await talk.response(header, FindCoordinatorResponse(host=request.key))
        await talk.silence()

    async with talking(script) as connection:
        begun = anyio.current_time()
        with pytest.raises(RequestTimedOut, match=r"didn't respond to FindCoordinatorRequest within 2 s"):
            await converse(connection, coordinator("0"), until(100, heard), timeout=2.0)
        assert len(heard) == 5
        assert anyio.current_time() - begun > 2.0 + 2.4, "the timeout restarts with each request"
        assert connection.is_suspect


async def test_request_chain_ends_when_the_connection_closes() -> None:
    async def script(talk: Conversation) -> None:
        header, request = await talk.request(FindCoordinatorRequest)
        await talk.response(header, FindCoordinatorResponse(host=request.key))
        await talk.request(FindCoordinatorRequest)

    async with talking(script) as connection:
        with pytest.raises(ConnectionLost, match="closed the connection"):
            await converse(connection, coordinator("0"), until(100, []))


async def test_cancelled_chain_leaves_the_connection_usable() -> None:
    async with talking(say_keys) as connection:
        for steps in range(12):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(converse, connection, coordinator("0"), until(10**6, []))
                for _ in range(steps):
                    await checkpoint()
                tasks.cancel_scope.cancel()
            assert (await connection.ask(coordinator("on"))).host == "on"


async def test_large_request_of_a_chain_is_sent_whole() -> None:
    parts = FindCoordinatorRequest(coordinator_keys=["x" * 30_000] * 300)
    sizes: list[int] = []

    async def script(talk: Conversation) -> None:
        await talk.greet()
        while True:
            header, request = await talk.request(FindCoordinatorRequest)
            sizes.append(sum(map(len, request.coordinator_keys)))
            await talk.response(header, FindCoordinatorResponse())

    left = [parts, FindCoordinatorRequest(coordinator_keys=["y"]), None]
    async with peer(script) as address, connected(settings(address)) as connection:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                converse, connection, FindCoordinatorRequest(coordinator_keys=["z"]), lambda _: left.pop(0)
            )
            tasks.start_soon(connection.ask, FindCoordinatorRequest(coordinator_keys=["me"]))
        assert sorted(sizes) == [1, 1, 2, 9_000_000]


async def test_peer_that_disconnects_during_a_request_of_a_chain() -> None:
    parts = FindCoordinatorRequest(coordinator_keys=["x" * 30_000] * 300)

    async def script(talk: Conversation) -> None:
        await talk.greet()
        header, _ = await talk.request(FindCoordinatorRequest)
        await talk.response(header, FindCoordinatorResponse())
        await talk.stream.receive()

    async with peer(script) as address, connected(settings(address)) as connection:
        with pytest.raises(ConnectionLost):
            await converse(connection, FindCoordinatorRequest(coordinator_keys=["z"]), lambda _: parts)
        assert not connection.is_open
