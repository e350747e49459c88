"""Topics that are created, deleted, recreated and extended while a consumer runs."""

from __future__ import annotations

import anyio
import pytest

from kshare import AcknowledgeError
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

ATTENTIVE = {"share.heartbeat.interval.ms": "500"}


async def test_a_recreated_topic_is_consumed_from_its_start(
    fresh_queue: FreshQueue,
) -> None:
    """Records held of the old topic are lost, and acknowledging them raises. The new topic is independent of it."""
    queue = fresh_queue(settings=ATTENTIVE)
    await queue.produce(3)
    async with queue.consumer(acknowledgement="explicit") as source:
        with anyio.fail_after(DEADLINE_S):
            first, second, third = await anext(source.batches())
            first.accept()
            assert set((await source.commit()).values()) == {None}
            await queue.delete_topic()
            await queue.create_topic()
            await queue.produce(3)
            new = await take(source, 3)
            assert [record.value for record in new] == queue.values(first=3)
            for old in (second, third):
                with pytest.raises(AcknowledgeError, match="can no longer be acknowledged"):
                    old.accept()
            assert set((await source.commit()).values()) == {None}


async def test_new_partitions_are_consumed_too(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings=ATTENTIVE)
    await queue.produce(3)
    async with queue.consumer() as source:
        await take(source, 3)
        await queue.grow(3)
        for partition in (1, 2):
            await queue.produce(2, partition=partition)
        found = await take(source, 4)
        assert sorted((record.partition, record.offset) for record in found) == [
            (1, 0),
            (1, 1),
            (2, 0),
            (2, 1),
        ]


async def test_a_topic_may_be_created_after_its_consumer(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings=ATTENTIVE)
    queue.topic += "-later"
    async with queue.consumer() as source:
        with anyio.move_on_after(1):
            async for _ in source:
                raise AssertionError("a record arrived before the topic existed")
        await queue.create_topic(2)
        await queue.produce(4)
        assert len(await take(source, 4)) == 4


async def test_deleting_one_of_two_topics_does_not_disturb_the_other(fresh_queue: FreshQueue) -> None:
    queue, other = fresh_queue(settings=ATTENTIVE), fresh_queue()
    await queue.produce(3)
    async with queue.consumer(topics=[queue.topic, other.topic]) as source:
        await take(source, 3)
        await other.delete_topic()
        for _ in range(3):
            await queue.produce(3)
            assert {record.topic for record in await take(source, 3)} == {queue.topic}
