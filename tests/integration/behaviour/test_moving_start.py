"""The log start offset advances: records are deleted that were not delivered yet, or that a consumer holds."""

from __future__ import annotations

import anyio
import pytest

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]


async def test_records_deleted_before_delivery_are_skipped(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(20)
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 1)] == [b"0"]
    await queue.delete_records(before=10)
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 10)] == queue.values(first=10)
        assert await nothing_comes(source)


async def test_records_deleted_while_held_can_still_be_acknowledged(fresh_queue: FreshQueue) -> None:
    """Acknowledging offsets below the log start offset succeeds, and so does acknowledging those above it."""
    queue = fresh_queue()
    await queue.produce(10)
    async with queue.consumer(acknowledgement="explicit") as source:
        with anyio.fail_after(DEADLINE_S):
            batch = await anext(source.batches())
        assert len(batch) == 10
        await queue.delete_records(before=5)
        await queue.produce(1)
        batch.accept()
        assert set((await source.commit()).values()) == {None}
        with anyio.fail_after(DEADLINE_S):
            (new,) = await anext(source.batches())
        assert new.value == b"10"
        new.accept()
        assert set((await source.commit()).values()) == {None}


async def test_retention_deletes_records_before_a_running_consumer_reads_them(
    fresh_queue: FreshQueue,
) -> None:
    """All old records are deleted, with their segment. Later ones are delivered."""
    queue = fresh_queue(topic={"segment.ms": "100"})
    await queue.produce(5)
    await queue.configure_topic({"retention.ms": "1"})
    with anyio.fail_after(DEADLINE_S):
        while await queue.log_start() < 5:
            await anyio.sleep(0.2)
    await queue.configure_topic({"retention.ms": "3600000"})
    async with queue.consumer() as source:
        await queue.produce(5)
        assert [record.value for record in await take(source, 5)] == queue.values(first=5)
        assert await nothing_comes(source)
