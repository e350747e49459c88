"""Transactions, and who sees them: a setting of the group."""

from __future__ import annotations

import uuid

import pytest
from kafka import KafkaProducer

from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue, in_thread, nothing_comes, take

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio, pytest.mark.slow]

COMMITTED = [b"a0", b"a1", b"c0", b"c1"]
ABORTED = [b"b0", b"b1"]


async def test_read_committed_leaves_out_what_was_aborted(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings={"share.isolation.level": "read_committed"})
    await in_thread(produce_in_transactions, queue)
    async with queue.consumer() as source:
        assert [record.value for record in await take(source, 4)] == COMMITTED
        assert set((await source.commit()).values()) == {None}
        # Aborted records and the marks of transactions are settled too: nothing holds the group back.
        await queue.send([b"d"])
        assert [record.value for record in await take(source, 1)] == [b"d"]
        assert set((await source.commit()).values()) == {None}
    async with queue.consumer() as source:
        assert await nothing_comes(source)
    assert await queue.start_offset() >= len(COMMITTED + ABORTED) + 3, "three transactions, with a mark each"


async def test_read_uncommitted_is_the_default_and_sees_everything(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    await in_thread(produce_in_transactions, queue)
    async with queue.consumer() as source:
        found = await take(source, 6)
        assert sorted(str(record.value) for record in found) == sorted(map(str, COMMITTED + ABORTED))
        assert await nothing_comes(source)


async def test_a_transaction_that_is_open_is_waited_for(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(settings={"share.isolation.level": "read_committed"})
    producer = await in_thread(begin, queue, [b"x", b"y"])
    try:
        async with queue.consumer() as source:
            assert await nothing_comes(source)
            await in_thread(producer.commit_transaction)
            assert [record.value for record in await take(source, 2)] == [b"x", b"y"]
    finally:
        await in_thread(producer.close)


def begin(queue: WorkQueue, values: list[bytes]) -> KafkaProducer:
    """A producer with a transaction under way, its records on the broker."""
    producer = KafkaProducer(bootstrap_servers=queue.broker.bootstrap, transactional_id=uuid.uuid4().hex)
    producer.init_transactions()
    write(producer, queue.topic, values)
    return producer


def write(producer: KafkaProducer, topic: str, values: list[bytes]) -> None:
    producer.begin_transaction()
    for value in values:
        producer.send(topic, value=value)
    producer.flush(timeout=DEADLINE_S)


def produce_in_transactions(queue: WorkQueue) -> None:
    """Committed, aborted, committed."""
    producer = begin(queue, COMMITTED[:2])
    try:
        producer.commit_transaction()
        write(producer, queue.topic, ABORTED)
        producer.abort_transaction()
        write(producer, queue.topic, COMMITTED[2:])
        producer.commit_transaction()
    finally:
        producer.close()
