"""Transactions, and the group's isolation level, which decides which records are delivered."""

from __future__ import annotations

import pytest

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.transactions import ABORTED, COMMITTED, begin, produce_in_transactions
from tests.integration.behaviour.work_queue import in_thread, nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]


async def test_read_committed_skips_aborted_records(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings={"share.isolation.level": "read_committed"})
    await in_thread(produce_in_transactions, queue)
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 4)] == COMMITTED
        assert set((await source.commit()).values()) == {None}
        # Aborted records and transaction markers are settled too, so the start offset advances.
        await queue.send([b"d"])
        assert [record.value for record in await take(source, 1)] == [b"d"]
        assert set((await source.commit()).values()) == {None}
    async with queue.consumer() as source:
        assert await nothing_comes(source)
    assert await queue.start_offset() >= len(COMMITTED + ABORTED) + 3, (
        "three transactions, with a marker each"
    )


async def test_read_uncommitted_is_the_default_and_sees_everything(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await in_thread(produce_in_transactions, queue)
    async with queue.consumer() as source:
        found = await take(source, 6)
        assert sorted(str(record.value) for record in found) == sorted(map(str, COMMITTED + ABORTED))
        assert await nothing_comes(source)


async def test_read_committed_waits_for_an_open_transaction(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings={"share.isolation.level": "read_committed"})
    producer = await in_thread(begin, queue, [b"x", b"y"])
    try:
        async with queue.consumer() as source:
            assert await nothing_comes(source)
            await in_thread(producer.commit_transaction)
            assert [record.value for record in await take(source, 2)] == [b"x", b"y"]
    finally:
        await in_thread(producer.close)
