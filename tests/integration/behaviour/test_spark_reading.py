"""What Spark's executors read from logs with gaps: the backlog of a group, the records of a lease, and streams."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import cast

import anyio
import pytest
from pyspark.sql import SparkSession

from kshare.spark import lease
from kshare.spark.backlog import BacklogReader
from kshare.spark.executor.connections import close_connections
from kshare.spark.leases.lease_token import LeaseReader, LeaseToken
from kshare.spark.options import ReadOptions
from kshare.spark.source import ShareStreamReader
from tests.integration.behaviour.compacting import COMPACTED, LEFT, compacted
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.transactions import ABORTED, COMMITTED, produce_in_transactions
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue, in_thread, take
from tests.integration.producing import produce_batches

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

NO_SPARK = cast(SparkSession, None)
"""The tests call the readers as Spark would."""


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    yield
    close_connections()


def options(queue: WorkQueue) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": queue.broker.bootstrap,
        "group": queue.group,
        "subscribe": queue.topic,
    }


def rows(queue: WorkQueue, token: str | None = None) -> list[tuple[int, bytes]]:
    """Offsets and values of the view, or of a lease."""
    reader: BacklogReader | LeaseReader
    if token is None:
        reader = BacklogReader(ReadOptions.parse(options(queue), is_streaming=False))
    else:
        lease = LeaseToken.decode(token)
        reader = LeaseReader(lease, lease.options({}))
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    return [
        (offset, value)
        for batch in batches
        for offset, value in zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    ]


def leased(queue: WorkQueue) -> list[tuple[int, bytes]]:
    with lease(NO_SPARK, options(queue), max_wait=DEADLINE_S) as held:
        return rows(queue, held.token)


def drained(queue: WorkQueue, **chosen: str) -> list[tuple[int, int]]:
    """Partitions and offsets that a query with AvailableNow emits, called as Spark would."""
    reader = ShareStreamReader(ReadOptions.parse({**options(queue), **chosen}, is_streaming=True))
    found: list[tuple[int, int]] = []
    try:
        reader.prepareForTriggerAvailableNow()
        start = first = reader.initialOffset()
        while (end := reader.latestOffset(start, None)) != start:
            if start != first:
                reader.commit(start)
            for part in reader.partitions(start, end):
                for batch in reader.read(part):
                    columns = batch.to_pydict()
                    found += zip(columns["partition"], columns["offset"], strict=True)
            start = end
    finally:
        reader.stop()
    return found


@pytest.mark.release("4.3.1", "4.4.0", "embedded")
async def test_a_drain_reads_what_is_left_above_deleted_records(fresh_queue: FreshQueue) -> None:
    """Real brokers stand still before the deleted ones, and the query ended normally, with a lag of 150."""
    queue, held = fresh_queue(partitions=2), set[int]()
    await in_thread(produce_batches, queue.broker.bootstrap, queue.topic, 600, 10, 300)
    async with queue.consumer(acknowledgement="explicit", max_records=32) as consumer:
        with anyio.fail_after(DEADLINE_S):
            while 0 not in held:
                held |= {record.partition for record in await consumer.next_batch()}
    await queue.delete_records(150)
    found = await in_thread(
        functools.partial(drained, queue, failOnDataLoss="false", maxRecordsPerTrigger="100")
    )
    left = [*((0, offset) for offset in range(150, 300)), *((1, offset) for offset in range(300))]
    assert sorted(found) == left


async def test_every_record_that_compaction_left_is_read(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(topic=COMPACTED)
    left = await compacted(queue)
    found = await in_thread(rows, queue)
    assert [offset for offset, _ in found] == left
    assert [value for _, value in found][: len(LEFT)] == [b"last", b"a", b"b"]
    assert await in_thread(leased, queue) == found
    assert await in_thread(rows, queue) == [], "the lease didn't accept its records when it ended"


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
async def test_aborted_records_are_read_only_with_read_uncommitted(
    fresh_queue: FreshQueue, isolation: str
) -> None:
    """With read_committed, brokers leave them out of acquired ranges; for a view, kshare filters them."""
    queue = fresh_queue(settings={"share.isolation.level": isolation})
    await in_thread(produce_in_transactions, queue)
    wanted = COMMITTED if isolation == "read_committed" else [*COMMITTED[:2], *ABORTED, *COMMITTED[2:]]
    found: list[tuple[int, bytes]] = []
    with anyio.fail_after(DEADLINE_S):
        # A producer doesn't wait until the transaction marker is written, and the view ends before an open transaction.
        while [value for _, value in found] != wanted:
            found = await in_thread(rows, queue)
    assert await in_thread(leased, queue) == found


async def test_settled_records_are_not_in_the_view(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await queue.produce(10)
    async with queue.consumer(acknowledgement="explicit") as source:
        for record in await take(source, 9):
            if record.offset % 3 == 0:
                record.accept()
            elif record.offset % 3 == 1:
                record.reject()
        await source.commit()
    assert [offset for offset, _ in await in_thread(rows, queue)] == [2, 5, 9]
