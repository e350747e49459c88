"""Records that nobody saw come back seldom: whatever releases them, deliveries stay far below the limit."""

from __future__ import annotations

import logging
import re

import anyio
import pytest

from kshare import ShareConsumer
from kshare.client.consumer import source_of
from kshare.protocol.message import Message
from kshare.protocol.messages import ShareFetchRequest, ShareFetchResponse, ShareGroupHeartbeatRequest
from kshare.state.unseen_releases import DEFAULT_LIMIT
from kshare.testing import Broker
from tests.fakes.tiny_cluster import ACCEPTED, ACQUIRED, AVAILABLE, TinyCluster
from tests.helpers.consuming import until

pytestmark = pytest.mark.anyio

DEADLINE_S = 20.0


async def some_heartbeats(cluster: TinyCluster, number: int = 3) -> None:
    """Time in which the consumer could do anything: heartbeats come every 100 ms."""
    beats = len(cluster.asked(ShareGroupHeartbeatRequest))
    await until(lambda: len(cluster.asked(ShareGroupHeartbeatRequest)) >= beats + number)


@pytest.mark.lengthy
async def test_while_paused_another_maximum_fetches_nothing() -> None:
    """Everything was acquired, released and acquired again, until all of the topic was archived."""
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x"] * 300)
    async with cluster.running(), ShareConsumer(cluster.bootstrap, group="g", topics="a") as source:
        with anyio.fail_after(DEADLINE_S):
            (await source.next_batch()).accept()
        source.pause(release=True)
        source.set_max_records(200)
        await some_heartbeats(cluster)
        fetches = len(cluster.asked(ShareFetchRequest))
        source.subscribe(["a"])
        source.set_max_records(300)
        await some_heartbeats(cluster)
        assert len(cluster.asked(ShareFetchRequest)) == fetches
        assert max(topic.deliveries) == 1
        assert ACQUIRED not in topic.states


async def test_a_pause_that_releases_leaves_what_was_handed_out_and_ends_with_resume() -> None:
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x"] * 10)
    topic.deliveries = [1, 1] + [0] * 8  # so that they are two batches
    async with cluster.running(), ShareConsumer(cluster.bootstrap, group="g", topics="a") as source:
        with anyio.fail_after(DEADLINE_S):
            first = await source.next_batch()
            await until(lambda: topic.states == [ACQUIRED] * 10)
            source.pause()
            assert not source.is_drained
            source.pause(release=True)
            await until(lambda: source.is_drained)
            await until(lambda: topic.states == [ACQUIRED] * 2 + [AVAILABLE] * 8)
            first.accept()
            source.resume()
            rest = await source.next_batch()
            assert (len(first), len(rest), rest.delivery_count) == (2, 8, 2)
            rest.accept()
    assert topic.states == [ACCEPTED] * 10


@pytest.mark.lengthy
async def test_topics_that_are_removed_and_added_again_and_again() -> None:
    cluster = TinyCluster("a", "b")
    topic = cluster.topics["a"]
    topic.append(*[b"x"] * 10)
    async with cluster.running(), ShareConsumer(cluster.bootstrap, group="g", topics=["a", "b"]) as source:
        with anyio.move_on_after(0.2):
            await source.batches().__anext__()  # begins to fetch, and leaves what arrives
        for _ in range(20):
            source.subscribe(["b"])
            await anyio.sleep(0.02)
            source.subscribe(["a", "b"])
            await anyio.sleep(0.02)
            with anyio.move_on_after(0.01):
                await source.next_batch()
    assert max(topic.deliveries) <= DEFAULT_LIMIT - 2


@pytest.mark.lengthy
async def test_damaged_responses_are_not_fetched_at_wire_speed(caplog: pytest.LogCaptureFixture) -> None:
    """Of 300 records, 270 were archived within 0.3 s."""
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x" * 100] * 20)
    damage = True

    def spoil(response: Message, frame: bytearray) -> bytearray:
        if damage and isinstance(response, ShareFetchResponse) and response.responses:
            frame[frame.rindex(b"x" * 100) + 50] ^= 1
        return frame

    cluster.spoil = spoil
    async with cluster.running(), ShareConsumer(cluster.bootstrap, group="g", topics="a") as source:
        seen: set[int] = set()

        async def consume() -> None:
            async for batch in source.batches():
                seen.update(record.offset for record in batch)
                batch.accept()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume)
            await until(lambda: max(topic.deliveries) > 0)
            await some_heartbeats(cluster, 10)
            assert max(topic.deliveries) <= 2
            assert len(cluster.asked(ShareFetchRequest)) <= 20
            assert not seen
            damage = False
            await until(lambda: len(seen) == 20)
            tasks.cancel_scope.cancel()
        assert max(topic.deliveries) <= 3
    assert sum("can't be verified" in line for line in caplog.messages) <= 2


@pytest.mark.lengthy
async def test_a_last_release_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x"] * 12)
    # The first one is handed out first: none was delivered more often.
    topic.deliveries = [DEFAULT_LIMIT - 1, 0] + [DEFAULT_LIMIT - 1] * 5 + [DEFAULT_LIMIT - 2] * 5
    with caplog.at_level(logging.WARNING, "kshare.client"):
        async with cluster.running(), ShareConsumer(cluster.bootstrap, group="g", topics="a") as source:
            with anyio.fail_after(DEADLINE_S):
                batch = await source.next_batch()
            source.pause(release=True)
            batch.accept()
            await until(lambda: ACQUIRED not in topic.states)
    assert [line for line in caplog.messages if "released without" in line] == [
        "group g: 5 records of a[0] (offsets 2 to 6): released without being handed out, at the delivery count "
        "limit; the broker archives them",
        "group g: 5 records of a[0] (offsets 7 to 11): released without being handed out; one delivery is left",
    ]


@pytest.mark.lengthy
async def test_nothing_is_fetched_before_somebody_asks() -> None:
    """Programs that died between opening and the first request archived records that nobody had seen."""
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x"] * 10)
    async with cluster.running():
        for _ in range(3):
            async with ShareConsumer(cluster.bootstrap, group="g", topics="a") as source:
                await some_heartbeats(cluster)
                await source.commit()
        assert not cluster.asked(ShareFetchRequest)
        assert topic.deliveries == [0] * 10
        async with ShareConsumer(cluster.bootstrap, group="g", topics="a") as source:
            with anyio.fail_after(DEADLINE_S):
                (await source.next_batch()).accept()


@pytest.mark.lengthy
@pytest.mark.parametrize("limit", [2, 3, 10])
async def test_what_short_runs_archive_is_named(limit: int, caplog: pytest.LogCaptureFixture) -> None:
    """Each run takes one record and ends. Groups have limits of their own: with 2, 14 records weren't named."""
    settings = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(limit)}
    seen: set[int] = set()
    with Broker(topics={"orders": 1}) as broker:
        broker.set_group_config("g", settings)
        broker.produce("orders", [b"x"] * 40)
        with anyio.fail_after(DEADLINE_S):
            for _ in range(limit + 1):
                async with ShareConsumer(broker.bootstrap, group="g", topics="orders") as source:
                    async for record in source:
                        seen.add(record.offset)
                        record.accept()
                        break
            lines = [line for line in caplog.messages if "the broker archives them" in line]
            async with ShareConsumer(broker.bootstrap, group="g", topics="orders") as source:
                async for record in source:
                    seen.add(record.offset)
                    if record.offset == 39:
                        record.accept()
                        break
    spans = [re.search(r"offsets? (\d+)(?: to (\d+))?\)", line) for line in lines]
    named = {at for span in spans if span for at in range(int(span[1]), int(span[2] or span[1]) + 1)}
    assert named == set(range(40)) - seen


@pytest.mark.lengthy
async def test_closing_releases_records_of_partitions_that_are_paused() -> None:
    """They are no longer in the session, so its end doesn't release them: they stayed locked for 30 s."""
    with Broker(topics={"orders": 1, "others": 1}) as broker:
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        broker.produce("orders", [b"x"] * 10)
        with anyio.fail_after(DEADLINE_S):
            async with ShareConsumer(broker.bootstrap, group="g", topics=["orders", "others"]) as source:
                batch = await source.next_batch()
                first = next(iter(batch))
                assert source_of(source).release_unseen(first)
                with anyio.move_on_after(0.2):
                    await source.next_batch()  # asks for records of other partitions only
            async with ShareConsumer(broker.bootstrap, group="g", topics="orders") as source:
                seen = 0
                while seen < 10:
                    other = await source.next_batch()
                    seen += len(other)
                    other.accept()


@pytest.mark.lengthy
async def test_a_record_with_few_deliveries_left_does_not_wait_for_the_rest_of_a_batch() -> None:
    """It was behind first deliveries each time a consumer ended, and was archived without having been seen."""
    cluster = TinyCluster("a", "b")
    first, urgent = cluster.topics["a"], cluster.topics["b"]
    first.append(*[b"x"] * 200)
    order: list[str] = []
    arrived = 0
    async with cluster.running(), ShareConsumer(cluster.bootstrap, group="g", topics=["a", "b"]) as source:
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                order.append(record.topic)
                if len(order) == 1:
                    urgent.append(b"y")
                    urgent.deliveries = [DEFAULT_LIMIT - 1]
                if not arrived and urgent.states[0] == ACQUIRED:
                    arrived = len(order)
                if record.topic == "b":
                    break
                await anyio.sleep(0.02)
    assert arrived
    assert len(order) - arrived <= 4
