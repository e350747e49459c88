"""Records that nobody saw come back seldom: whatever releases them, deliveries stay far below the limit."""

from __future__ import annotations

import logging

import anyio
import pytest

from kshare import ShareConsumer
from kshare.protocol.message import Message
from kshare.protocol.messages import ShareFetchRequest, ShareFetchResponse, ShareGroupHeartbeatRequest
from kshare.state.unseen_releases import DEFAULT_LIMIT
from tests.fakes.tiny_cluster import ACQUIRED, TinyCluster
from tests.helpers.consuming import until

pytestmark = pytest.mark.anyio

DEADLINE_S = 20.0


async def some_heartbeats(cluster: TinyCluster, number: int = 3) -> None:
    """Time in which the consumer could do anything: heartbeats come every 100 ms."""
    beats = len(cluster.asked(ShareGroupHeartbeatRequest))
    await until(lambda: len(cluster.asked(ShareGroupHeartbeatRequest)) >= beats + number)


async def test_after_stop_acquiring_another_maximum_fetches_nothing() -> None:
    """Everything was acquired, released and acquired again, until all of the topic was archived."""
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x"] * 300)
    async with cluster.running(), ShareConsumer(cluster.bootstrap, group="g", topics="a") as source:
        with anyio.fail_after(DEADLINE_S):
            (await source.next_batch()).accept()
        source.stop_acquiring()
        source.set_max_records(200)
        await some_heartbeats(cluster)
        fetches = len(cluster.asked(ShareFetchRequest))
        source.pause()
        source.resume()
        source.subscribe(["a"])
        source.set_max_records(300)
        await some_heartbeats(cluster)
        assert len(cluster.asked(ShareFetchRequest)) == fetches
        assert max(topic.deliveries) == 1
        assert ACQUIRED not in topic.states


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


async def test_damaged_responses_are_not_fetched_at_wire_speed(caplog: pytest.LogCaptureFixture) -> None:
    """Of 300 records, 270 were archived within 0.3 s."""
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x" * 100] * 20)
    damage = True

    def spoil(answer: Message, frame: bytearray) -> bytearray:
        if damage and isinstance(answer, ShareFetchResponse) and answer.responses:
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


async def test_a_last_release_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    cluster = TinyCluster("a")
    topic = cluster.topics["a"]
    topic.append(*[b"x"] * 11)
    topic.deliveries = [0] + [DEFAULT_LIMIT - 1] * 5 + [DEFAULT_LIMIT - 2] * 5
    with caplog.at_level(logging.WARNING, "kshare.client"):
        async with cluster.running(), ShareConsumer(cluster.bootstrap, group="g", topics="a") as source:
            with anyio.fail_after(DEADLINE_S):
                batch = await source.next_batch()
            source.stop_acquiring()
            batch.accept()
            await until(lambda: ACQUIRED not in topic.states)
    assert [line for line in caplog.messages if "unseen" in line] == [
        "group g: 5 records of a[0] (offsets 1 to 5): given back unseen at the delivery count limit; "
        "the broker archives them",
        "group g: 5 records of a[0] (offsets 6 to 10): given back unseen, with one delivery left",
    ]


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
