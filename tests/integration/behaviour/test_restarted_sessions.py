"""Restarting the session gives records back. Kafka 4.1 doesn't count such deliveries, however many there are."""

from __future__ import annotations

import anyio
import pytest

from kshare import ShareBatch, ShareConsumer
from kshare.client.consumer import source_of
from tests.integration.behaviour.conftest import FreshQueue

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]

RECORDS = 100
LIMIT = 5
DEADLINE_S = 20.0


@pytest.mark.release("4.1.2")
async def test_given_back_more_often_than_the_delivery_limit(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(RECORDS)
    seen: list[bytes | None] = []
    async with queue.consumer() as consumer:
        for _ in range(2 * LIMIT):
            batch = await next_batch(consumer)
            first = next(iter(batch))
            seen.append(first.value)
            assert batch.delivery_count == 1
            first.accept()
            await source_of(consumer).restart_sessions()
        while len(seen) < RECORDS:
            batch = await next_batch(consumer)
            assert batch.delivery_count == 1
            seen += batch.values()
            batch.accept()
    assert sorted(seen, key=str) == sorted(queue.values(), key=str)


async def next_batch(consumer: ShareConsumer) -> ShareBatch:
    with anyio.fail_after(DEADLINE_S):
        return await consumer.next_batch()
