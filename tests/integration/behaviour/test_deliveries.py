"""How often a record is delivered, and what happens after the last delivery."""

from __future__ import annotations

import anyio
import pytest

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

USUAL_LIMIT, CHOSEN_LIMIT = 5, 2


async def test_the_delivery_count_rises_until_the_broker_archives_the_record(
    fresh_queue: FreshQueue, release_limit: tuple[dict[str, str], int]
) -> None:
    settings, limit = release_limit
    queue = fresh_queue(settings=settings)
    await queue.produce(1)
    counts = []
    async with queue.consumer(acknowledgement="explicit") as source:
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                counts.append(record.delivery_count)
                assert record.redelivered == (record.delivery_count > 1)
                record.release()
                if len(counts) == limit:
                    break
        assert set((await source.commit()).values()) == {None}
        assert counts == list(range(1, limit + 1))
        assert await nothing_comes(source)
    await queue.produce(1)
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 1)] == [b"1"]


@pytest.fixture
def release_limit(fresh_queue: FreshQueue) -> tuple[dict[str, str], int]:
    """4.1 only has the broker's limit. From 4.3 on, each group can set its own."""
    if fresh_queue().is_4_1:
        return {}, USUAL_LIMIT
    return {"share.delivery.count.limit": str(CHOSEN_LIMIT)}, CHOSEN_LIMIT
