"""Groups that have read all they may have, though markers, aborted or open transactions keep their lag up."""

from __future__ import annotations

import time

import pytest

from kshare.admin.routing import Router
from kshare.monitor.collect import Collector
from kshare.monitor.snapshot import PartitionReading
from kshare.monitor.stalls import stalled_for
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.transactions import ABORTED, begin
from tests.integration.behaviour.work_queue import WorkQueue, in_thread, nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

LONG_S = 3600.0


def abort(queue: WorkQueue, values: list[bytes]) -> None:
    producer = begin(queue, values)
    try:
        producer.abort_transaction()
    finally:
        producer.close()


class Readings:
    """Of the only partition of a queue."""

    def __init__(self, queue: WorkQueue, pool: Pool) -> None:
        self._collector = Collector(Router(pool, 30), [queue.group])
        self._before: PartitionReading | None = None

    async def is_stalled(self) -> bool:
        """Whether it would be called stalled, if nothing changes for an hour."""
        ((now,),) = [group.partitions for group in (await self._collector.read()).groups]
        before, self._before = self._before, now
        return stalled_for(before or now, now, time.time() + LONG_S) is not None


@pytest.mark.parametrize("values", [ABORTED, [bytes(10_000)] * 30], ids=["small", "large"])
async def test_aborted_transactions_at_the_end_are_no_work_for_a_read_committed_group(
    fresh_queue: FreshQueue, values: list[bytes]
) -> None:
    queue = fresh_queue(settings={"share.isolation.level": "read_committed"})
    await queue.send([b"before"])
    async with queue.consumer() as source, Pool(NetSettings.parse(queue.broker.bootstrap)) as pool:
        assert [record.value for record in await take(source, 1)] == [b"before"]
        await source.commit()
        await in_thread(abort, queue, values)
        assert await nothing_comes(source)
        readings = Readings(queue, pool)
        assert [await readings.is_stalled() for _ in range(9)] == [False] * 9


async def test_an_open_transaction_is_no_work_until_it_is_committed(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings={"share.isolation.level": "read_committed"})
    async with Pool(NetSettings.parse(queue.broker.bootstrap)) as pool:
        await queue.send([b"before"])
        async with queue.consumer() as source:
            assert [record.value for record in await take(source, 1)] == [b"before"]
            await source.commit()
        producer = await in_thread(begin, queue, [b"x", b"y"])
        try:
            readings = Readings(queue, pool)
            assert [await readings.is_stalled() for _ in range(3)] == [False] * 3
            await in_thread(producer.commit_transaction)
            assert [await readings.is_stalled() for _ in range(3)][1:] == [True] * 2
        finally:
            await in_thread(producer.close)


async def test_aborted_records_are_work_for_a_read_uncommitted_group(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    async with Pool(NetSettings.parse(queue.broker.bootstrap)) as pool:
        await queue.send([b"before"])
        async with queue.consumer() as source:
            assert [record.value for record in await take(source, 1)] == [b"before"]
            await source.commit()
        await in_thread(abort, queue, ABORTED)
        readings = Readings(queue, pool)
        assert [await readings.is_stalled() for _ in range(3)] == [True] * 3
