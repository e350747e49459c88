"""Requests and log lines a second, in every state of a consumer: nothing is repeated at wire speed.

Rates are counted while a state lasts for some heartbeats, which come every 100 ms, so a slow machine isn't a failure.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import pytest

from kshare import ShareConsumer
from kshare.errors import KshareError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    MetadataRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
)
from kshare.state.empty_responses import REOPEN
from tests.fakes.tiny_cluster import TinyCluster
from tests.helpers.consuming import until

pytestmark = [pytest.mark.anyio, pytest.mark.lengthy]

BEATS = 15
"""Heartbeats for which each state lasts: 1.5 s at least."""
MOST_REQUESTS = 60
"""In that time. A hot loop sends thousands."""
MOST_LINES = 20


class Counted(NamedTuple):
    fetches: int
    acknowledgements: int
    others: int
    lines: int


@asynccontextmanager
async def opened(cluster: TinyCluster, **options: Any) -> AsyncIterator[ShareConsumer]:
    async with (
        cluster.running(),
        ShareConsumer(cluster.bootstrap, group="g", topics="a", close_timeout=1.0, **options) as source,
        anyio.create_task_group() as tasks,
    ):

        async def consume() -> None:
            while True:
                batch = await source.next_batch()
                batch.accept()

        tasks.start_soon(consume)
        yield source
        tasks.cancel_scope.cancel()


async def counted(cluster: TinyCluster, caplog: pytest.LogCaptureFixture) -> Counted:
    """What is sent and logged from now on, for some heartbeats or the time that these take."""
    before = {kind: len(cluster.asked(kind)) for kind in _KINDS}
    lines = len(caplog.records)
    with anyio.move_on_after(BEATS * 0.1 + 1.0):
        goal = before[ShareGroupHeartbeatRequest] + BEATS
        await until(lambda: len(cluster.asked(ShareGroupHeartbeatRequest)) >= goal)
    fetches, acknowledgements, others = (
        len(cluster.asked(kind)) - before[kind]
        for kind in (ShareFetchRequest, ShareAcknowledgeRequest, MetadataRequest)
    )
    return Counted(fetches, acknowledgements, others, len(caplog.records) - lines)


_KINDS: tuple[type[Message], ...] = (
    ShareFetchRequest,
    ShareAcknowledgeRequest,
    MetadataRequest,
    ShareGroupHeartbeatRequest,
)


def require_calm(found: Counted) -> None:
    assert found.fetches + found.acknowledgements + found.others <= MOST_REQUESTS, found
    assert found.lines <= MOST_LINES, found


async def test_idle(caplog: pytest.LogCaptureFixture) -> None:
    cluster = TinyCluster("a")
    caplog.set_level(logging.INFO, "kshare")
    async with opened(cluster):
        await until(lambda: len(cluster.asked(ShareFetchRequest)) > 0)
        require_calm(await counted(cluster, caplog))


async def test_empty_responses_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """3,500 fetches a second; now the broker is asked less often, and the log says which partitions it is about."""
    cluster = TinyCluster("a")
    cluster.responses_at_once = True
    caplog.set_level(logging.INFO, "kshare")
    async with opened(cluster):
        await until(lambda: len(cluster.asked(ShareFetchRequest)) > 0)
        require_calm(await counted(cluster, caplog))
        assert any("without records" in line and "a[0]" in line for line in caplog.messages)
        cluster.topics["a"].append(b"x")
        await until(lambda: cluster.topics["a"].states == ["accepted"])


async def test_a_broker_that_stands_still_goes_on_after_the_session_is_opened_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The records never came."""
    cluster = TinyCluster("a")
    cluster.stands_still = True
    cluster.topics["a"].append(b"x", b"y")
    caplog.set_level(logging.INFO, "kshare")
    async with opened(cluster):
        await until(lambda: len(cluster.asked(ShareFetchRequest)) > 0)
        require_calm(await counted(cluster, caplog))
        await until(lambda: cluster.topics["a"].states == ["accepted", "accepted"])
        assert any("stop all consumers of the group" in line and "a[0]" in line for line in caplog.messages)
        assert (
            len([fetch for fetch in cluster.asked(ShareFetchRequest) if fetch.share_session_epoch == 0]) == 2
        )
    assert cluster.topics["a"].deliveries == [1, 1]


async def test_a_session_that_holds_records_is_not_opened_again(caplog: pytest.LogCaptureFixture) -> None:
    """They would lose their locks, and that costs a delivery."""
    cluster = TinyCluster("a")
    cluster.responses_at_once = True
    cluster.topics["a"].append(b"x")
    async with (
        cluster.running(),
        ShareConsumer(
            cluster.bootstrap, group="g", topics="a", close_timeout=1.0, acknowledgement="explicit"
        ) as source,
        anyio.create_task_group() as tasks,
    ):
        held = await source.next_batch()
        tasks.start_soon(source.next_batch)
        await until(lambda: len(cluster.asked(ShareFetchRequest)) > REOPEN + 2)
        sessions = [fetch for fetch in cluster.asked(ShareFetchRequest) if fetch.share_session_epoch == 0]
        assert len(sessions) == 1
        held.accept()
        await source.commit()
        assert cluster.topics["a"].states == ["accepted"]
        tasks.cancel_scope.cancel()


_ERRORS = [
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
]


@pytest.mark.parametrize("code", _ERRORS)
async def test_errors_of_sessions(code: int, caplog: pytest.LogCaptureFixture) -> None:
    cluster = TinyCluster("a")
    cluster.error_always[ShareFetchRequest] = code
    caplog.set_level(logging.INFO, "kshare")
    async with opened(cluster):
        await until(lambda: len(cluster.asked(ShareFetchRequest)) > 0)
        require_calm(await counted(cluster, caplog))


@pytest.mark.parametrize("code", _ERRORS)
async def test_errors_of_partitions(code: int, caplog: pytest.LogCaptureFixture) -> None:
    cluster = TinyCluster("a")
    cluster.partition_error = code
    caplog.set_level(logging.INFO, "kshare")
    async with opened(cluster):
        await until(lambda: len(cluster.asked(ShareFetchRequest)) > 0)
        require_calm(await counted(cluster, caplog))


def _flip(response: Message, frame: bytearray) -> bytearray:
    if isinstance(response, ShareFetchResponse) and response.responses:
        frame[frame.rindex(b"x" * 100) + 50] ^= 1
    return frame


async def test_corrupt_records(caplog: pytest.LogCaptureFixture) -> None:
    """700 fetches a second, and 3,382 records archived unseen in 6 s."""
    cluster = TinyCluster("a")
    cluster.topics["a"].append(*[b"x" * 100] * 50)
    cluster.spoil = _flip
    caplog.set_level(logging.INFO, "kshare")
    async with opened(cluster):
        await until(lambda: len(cluster.asked(ShareFetchRequest)) > 0)
        require_calm(await counted(cluster, caplog))


@pytest.mark.parametrize("release", [False, True])
async def test_paused(release: bool, caplog: pytest.LogCaptureFixture) -> None:
    cluster = TinyCluster("a")
    cluster.topics["a"].append(*[b"x"] * 1000)
    caplog.set_level(logging.INFO, "kshare")
    async with opened(cluster) as source:
        await until(lambda: "accepted" in cluster.topics["a"].states)
        source.pause(release=release)
        cluster.topics["a"].append(*[b"x"] * 1000)
        require_calm(await counted(cluster, caplog))


async def test_full(caplog: pytest.LogCaptureFixture) -> None:
    cluster = TinyCluster("a")
    cluster.topics["a"].append(*[b"x"] * 1000)
    caplog.set_level(logging.INFO, "kshare")
    async with (
        cluster.running(),
        ShareConsumer(cluster.bootstrap, group="g", topics="a", max_records=5) as source,
    ):
        batch = await source.next_batch()
        with anyio.move_on_after(0.2):
            await source.next_batch()
        require_calm(await counted(cluster, caplog))
        batch.accept()


async def test_dead_connections(caplog: pytest.LogCaptureFixture) -> None:
    cluster = TinyCluster("a")
    caplog.set_level(logging.INFO, "kshare")

    async def hang_up() -> None:
        while True:
            await cluster.hang_up()
            await anyio.sleep(0.005)

    async with opened(cluster), anyio.create_task_group() as tasks:
        await until(lambda: len(cluster.asked(ShareFetchRequest)) > 0)
        tasks.start_soon(hang_up)
        require_calm(await counted(cluster, caplog))
        tasks.cancel_scope.cancel()


async def test_closing(caplog: pytest.LogCaptureFixture) -> None:
    cluster = TinyCluster("a")
    cluster.topics["a"].append(*[b"x"] * 1000)
    caplog.set_level(logging.INFO, "kshare")
    async with cluster.running():
        source = ShareConsumer(cluster.bootstrap, group="g", topics="a", close_timeout=1.0)
        await source.__aenter__()
        (await source.next_batch()).accept()
        cluster.silent_acks = True
        before = len(cluster.requests)
        await _ended(source.close)
        assert len(cluster.requests) - before <= MOST_REQUESTS


async def _ended(close: Callable[[], Any]) -> None:
    try:
        await close()
    except KshareError as error:
        assert str(error)


async def test_changing_assignments(caplog: pytest.LogCaptureFixture) -> None:
    """1,884 lines "assigned" in 5 s."""
    cluster = TinyCluster("a", "b")
    caplog.set_level(logging.INFO, "kshare")
    async with opened(cluster) as source:
        for number in range(100):
            source.subscribe(["a", "b"] if number % 2 else ["a"])
            await until(lambda: tuple(cluster.subscribed) == source.topics)
    assert sum("assigned" in line for line in caplog.messages) <= 3


async def test_short_request_timeout(caplog: pytest.LogCaptureFixture) -> None:
    """Fetches waited at the broker for longer than the request timeout: the session was lost 16 times in 10 s."""
    cluster = TinyCluster("a")
    caplog.set_level(logging.INFO, "kshare")
    async with opened(cluster, request_timeout=0.4):
        await until(lambda: len(cluster.asked(ShareFetchRequest)) > 0)
        found = await counted(cluster, caplog)
        assert max(fetch.max_wait_ms for fetch in cluster.asked(ShareFetchRequest)) <= 200
        assert found.fetches <= MOST_REQUESTS
    assert not [line for line in caplog.messages if "RequestTimedOut" in line or "doesn't respond" in line]
