"""Brokers that accept no connection, or never response: when opening, while consuming, and when closing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from kshare import AdminClient, ConnectionLost, KshareError, ShareConsumer, sync
from kshare.client.record import ShareRecord
from kshare.engine.events import Event, SessionEnded
from kshare.net.addresses import format_address
from kshare.protocol.messages import ApiVersionsRequest, ShareFetchRequest
from tests.fakes.nodes import mute
from tests.fakes.peer import peer
from tests.fakes.tiny_cluster import ACCEPTED, TinyCluster
from tests.fakes.wall import Wall
from tests.helpers.consuming import consumer, next_of, until

pytestmark = pytest.mark.anyio
DEADLINE_S = 30.0
SHORT: dict[str, Any] = {"connect_timeout": 0.3, "request_timeout": 0.5}


@asynccontextmanager
async def _listener(kind: str) -> AsyncIterator[str]:
    if kind == "accepts nothing":
        with Wall() as wall:
            yield wall.text
    else:
        async with peer(mute) as address:
            yield format_address(address)


_KINDS = pytest.mark.parametrize(
    ("kind", "step"),
    [("accepts nothing", "no TCP connection"), ("never responds", "no response to ApiVersions")],
    ids=["accepts nothing", "never responds"],
)


@pytest.mark.lengthy
@_KINDS
@pytest.mark.parametrize("client", [ShareConsumer, AdminClient])
async def test_opening_raises_an_error(kind: str, step: str, client: Any) -> None:
    """The error says which address, which step and how long. If the machine is busy, more than one step was begun."""
    options = {} if client is AdminClient else {"group": "g", "topics": ["a"]}
    async with _listener(kind) as where:
        with anyio.fail_after(DEADLINE_S), pytest.raises(ConnectionLost) as caught:
            async with client(where, **options, **SHORT):
                pass
    assert str(caught.value) in (
        f"can't reach {where}: {step} within 0.3 s",
        f"can't reach {where}: not connected within 0.3 s ({step})",
    )


@pytest.mark.lengthy
@_KINDS
async def test_opening_raises_an_error_without_an_event_loop(kind: str, step: str) -> None:
    def work(where: str) -> None:
        with sync.ShareConsumer(where, group="g", topics=["a"], **SHORT):
            pass

    async with _listener(kind) as where:
        with anyio.fail_after(DEADLINE_S), pytest.raises(ConnectionLost) as caught:
            await anyio.to_thread.run_sync(work, where)
    assert str(caught.value) == f"can't reach {where}: {step} within 0.3 s"


@pytest.fixture
def two() -> Iterator[TinyCluster]:
    """Node 1 is the coordinator and leads `a`; node 2 leads `b`."""
    cluster = TinyCluster("a", "b", nodes=2)
    cluster.topics["b"].leader = 2
    yield cluster
    cluster.frozen.clear()


@pytest.mark.lengthy
async def test_frozen_broker_does_not_delay_the_others_and_is_used_again(two: TinyCluster) -> None:
    events: list[Event] = []
    async with two.running(), consumer(two, "a", "b", observer=events.append, **SHORT) as source:
        two.topics["b"].append(b"b0")
        assert (await next_of(source)).value == b"b0"
        await source.commit()
        two.frozen = {2}
        two.topics["b"].append(b"b1")
        # All of them arrive while node 2 is frozen: a consumer that waited for it would get none.
        for number in range(50):
            two.topics["a"].append(b"a%d" % number)
            record = await next_of(source)
            assert record.topic == "a"
            record.accept()
        await until(lambda: any(isinstance(event, SessionEnded) and event.node == 2 for event in events))
        two.frozen = set()
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                if record.value == b"b1":
                    break


@pytest.mark.lengthy
async def test_frozen_leader_is_replaced_by_the_new_one(two: TinyCluster) -> None:
    """The old leader can't tell that leadership moved, so the consumer has to request metadata."""
    async with two.running(), consumer(two, "b", **SHORT) as source:
        two.topics["b"].append(b"b0")
        assert (await next_of(source)).value == b"b0"
        two.frozen = {2}
        two.topics["b"].move(1)
        two.topics["b"].append(b"b1")
        seen = {(await next_of(source)).value, (await next_of(source)).value}
        assert seen == {b"b0", b"b1"}


@pytest.mark.lengthy
async def test_reconnecting_to_a_frozen_broker_is_no_busy_loop(
    two: TinyCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt takes `connect_timeout`, with growing pauses in between."""
    async with two.running(), consumer(two, "b", backoff_max=0.4, **SHORT) as source:
        two.topics["b"].append(b"b0")
        assert (await next_of(source)).value == b"b0"
        await source.commit()
        two.frozen = {2}
        before = len(two.talks)
        with anyio.move_on_after(3.0):
            await anext(aiter(source))
        assert len(two.talks) - before <= 12
    assert any("node 2 doesn't respond" in record.getMessage() for record in caplog.records)


@pytest.mark.lengthy
async def test_closing_with_a_frozen_broker_ends_and_settles_records_of_the_others(two: TinyCluster) -> None:
    options = SHORT | {"close_timeout": 1.0}
    async with two.running():
        with anyio.fail_after(DEADLINE_S):
            async with consumer(two, "a", "b", acknowledgement="explicit", **options) as source:
                two.topics["a"].append(b"a0")
                two.topics["b"].append(b"b0")
                found: dict[str, ShareRecord] = {}
                while len(found) < 2:
                    record = await next_of(source)
                    found[record.topic] = record
                two.frozen = {2}
                for record in found.values():
                    record.accept()
        assert two.topics["a"].states == [ACCEPTED]


@pytest.mark.lengthy
async def test_commit_with_a_frozen_broker_returns_an_error(two: TinyCluster) -> None:
    async with two.running():
        async with consumer(two, "b", acknowledgement="explicit", close_timeout=1.0, **SHORT) as source:
            two.topics["b"].append(b"b0")
            record = await next_of(source)
            two.frozen = {2}
            record.accept()
            with anyio.fail_after(DEADLINE_S):
                try:
                    results = await source.commit()
                except KshareError:
                    results = {("b", 0): ConnectionLost("not confirmed")}
        assert results[("b", 0)] is not None


@pytest.mark.lengthy
@pytest.mark.parametrize("timeout", [0.5, 20.0], ids=["short", "long"])
async def test_frozen_broker_without_an_event_loop(two: TinyCluster, timeout: float) -> None:
    """Records of the other broker keep arriving, and closing takes at most `close_timeout`."""
    options = SHORT | {"request_timeout": timeout, "close_timeout": 1.0}

    def work() -> list[bytes | None]:
        with sync.ShareConsumer(two.bootstrap, group="g", topics=["a", "b"], **options) as source:
            seen = []
            for record in source:
                seen.append(record.value)
                two.frozen = {2}
                if len(seen) == 3:
                    return seen
        raise AssertionError("the loop ended")

    async with two.running():
        two.topics["a"].append(b"a0", b"a1", b"a2")
        with anyio.fail_after(DEADLINE_S):
            assert await anyio.to_thread.run_sync(work) == [b"a0", b"a1", b"a2"]


@pytest.mark.lengthy
async def test_admin_client_asks_another_broker(two: TinyCluster) -> None:
    """The broker it is connected to freezes; there is time left to ask the other."""
    async with two.running():
        servers = ",".join(map(format_address, two.addresses.values()))
        async with AdminClient(servers, request_timeout=2.0, connect_timeout=0.5) as admin:
            asked = [node for node, one in two.requests if isinstance(one, ApiVersionsRequest)]
            two.frozen = {asked[-1]}
            with anyio.fail_after(DEADLINE_S):
                config = await admin.list_topics()
            assert config == []


@pytest.mark.lengthy
async def test_records_arrive_when_a_frozen_broker_is_back(two: TinyCluster) -> None:
    """Frozen before it was ever reached: the consumer opens, and waits."""
    two.frozen = {2}
    two.topics["b"].append(b"b0")
    async with two.running(), consumer(two, "b", **SHORT) as source:
        received = []

        async def receive() -> None:
            received.append((await next_of(source)).value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)  # nothing is fetched before somebody asks
            await until(lambda: len(two.talks) > 2)
            assert not two.asked(ShareFetchRequest, node=2)
            two.frozen = set()
        assert received == [b"b0"]
