"""The producer against every broker: what it reports as written can be read, once and in order."""

from __future__ import annotations

import uuid
from time import time

import pytest

from kshare import BrokerError, Producer, ProducerFenced
from kshare.producer.settings import CompressionName
from tests.helpers.committed import committed
from tests.integration.behaviour.conftest import FreshQueue
from tests.integration.behaviour.work_queue import take

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_share_group_reads_what_was_produced(
    fresh_queue: FreshQueue, compression: CompressionName | None
) -> None:
    queue = fresh_queue(partitions=2)
    timestamp = int(time() * 1000) - 1000
    async with Producer(queue.broker.bootstrap, compression=compression) as producer:
        sends = [
            await producer.enqueue(
                queue.topic,
                b"%d" % number,
                key=b"key",
                headers=[("trace", b"a1")],
                timestamp=timestamp,
            )
            for number in range(1000)
        ]
        results = [await send for send in sends]
    assert [result.offset for result in results] == list(range(1000))
    async with queue.consumer() as consumer:
        records = await take(consumer, 1000)
        assert sorted((record.offset, record.value) for record in records) == [
            (number, b"%d" % number) for number in range(1000)
        ]
        assert {(record.key, record.timestamp, record.partition) for record in records} == {
            (b"key", timestamp, results[0].partition)
        }
        assert {tuple(record.headers) for record in records} == {(("trace", b"a1"),)}


async def test_record_without_key_and_null_values(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=3)
    async with Producer(queue.broker.bootstrap) as producer:
        await producer.send(queue.topic, None, key=b"gone")
        await producer.send(queue.topic, b"")
    assert sorted(map(repr, await committed(queue.broker.bootstrap, queue.topic))) == ["None", "b''"]


async def test_too_large_records_and_missing_topics(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(topic={"max.message.bytes": "2000"})
    async with Producer(queue.broker.bootstrap, linger=0.5) as producer:
        values = [bytes(500)] * 5 + [bytes(5000)] + [bytes(500)] * 5
        sends = [await producer.enqueue(queue.topic, value) for value in values]
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await producer.flush()
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await sends[5]
        with pytest.raises(BrokerError, match="topic missing: UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send("missing", b"")
    assert len(await committed(queue.broker.bootstrap, queue.topic)) == 10


async def test_transactions_are_committed_or_aborted(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue(partitions=2)
    async with Producer(queue.broker.bootstrap, transactional_id=uuid.uuid4().hex) as producer:
        for number in range(6):
            is_aborted = number % 3 == 1
            try:
                async with producer.transaction():
                    for partition in (0, 1):
                        value = b"%d-%d" % (partition, number)
                        await producer.send(queue.topic, value, partition=partition)
                    await producer.enqueue(queue.topic, b"0-%d+" % number, partition=0)
                    if is_aborted:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                assert is_aborted
    numbers = [0, 2, 3, 5]
    first = [value for number in numbers for value in (b"0-%d" % number, b"0-%d+" % number)]
    assert await committed(queue.broker.bootstrap, queue.topic) == [
        *first,
        *(b"1-%d" % number for number in numbers),
    ]


async def test_newer_producer_fences_an_older_one(fresh_queue: FreshQueue) -> None:
    queue = fresh_queue()
    name = uuid.uuid4().hex

    async def write() -> None:
        async with older.transaction():
            await older.send(queue.topic, b"old")
            async with Producer(queue.broker.bootstrap, transactional_id=name) as newer, newer.transaction():
                await newer.send(queue.topic, b"new")
            await older.send(queue.topic, b"older")

    async with Producer(queue.broker.bootstrap, transactional_id=name) as older:
        with pytest.raises(ProducerFenced, match=name):
            await write()
    assert await committed(queue.broker.bootstrap, queue.topic) == [b"new"]
