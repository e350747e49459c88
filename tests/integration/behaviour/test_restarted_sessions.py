"""Restarting the session gives records back. Kafka 4.1 doesn't count such deliveries, however many there are."""

from __future__ import annotations

import anyio
import pytest

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
    found = []
    async with queue.consumer() as consumer:
        for _ in range(2 * LIMIT):
            with anyio.fail_after(DEADLINE_S):
                batch = await consumer.next_batch()
            first = next(iter(batch))
            found.append((first.value, batch.delivery_count))
            first.accept()
            await source_of(consumer).restart_sessions()
    assert found == [(value, 1) for value in queue.values()[: 2 * LIMIT]]
