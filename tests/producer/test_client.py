"""`Producer` with an embedded broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator

import anyio
import pytest

from kshare import BrokerError, KshareError, Produced, Producer
from kshare.producer.partitioner import partition_for
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders", 3)
    return kshare_broker


@pytest.fixture
async def producer(broker: Broker, anyio_backend: str) -> AsyncIterator[Producer]:
    async with Producer(broker.bootstrap, request_timeout=2, delivery_timeout=20) as opened:
        yield opened


def values(broker: Broker, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


async def test_result_says_where_the_record_was_written(broker: Broker, producer: Producer) -> None:
    number = partition_for(b"order 7", 3)
    for offset in range(2):
        produced = await producer.send(
            "orders", b"shipped", key=b"order 7", headers=[("trace", b"a1")], timestamp=5
        )
        assert produced == Produced("orders", number, offset, 5)
    record = broker.records("orders")[0]
    assert (record.key, record.value, record.timestamp) == (b"order 7", b"shipped", 5)
    assert list(record.headers) == [("trace", b"a1")]


@pytest.mark.lengthy
async def test_thousands_of_records_in_flight_keep_their_order(broker: Broker, producer: Producer) -> None:
    sends = [await producer.enqueue("orders", b"%d" % number, key=b"k") for number in range(5000)]
    await producer.flush()
    assert [send.result().offset for send in sends] == list(range(5000))
    assert values(broker) == [b"%d" % number for number in range(5000)]


async def test_end_of_the_block_writes_what_is_left(broker: Broker) -> None:
    async with Producer(broker.bootstrap, linger=60) as producer:
        await producer.enqueue("orders", b"one")
    assert values(broker) == [b"one"]
    with pytest.raises(KshareError, match="the producer was closed: open another one to continue"):
        await producer.send("orders", b"two")


async def test_producer_must_be_open(broker: Broker) -> None:
    with pytest.raises(KshareError, match="the producer isn't open: use it with `async with`"):
        await Producer(broker.bootstrap).send("orders", b"one")


@pytest.mark.lengthy
async def test_all_who_close_it_return_when_the_records_are_written(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, before_ms=300)
    found: list[list[bytes | None]] = []

    async def close(producer: Producer) -> None:
        await producer.close()
        found.append(values(broker))

    async with Producer(broker.bootstrap) as producer:
        await producer.enqueue("orders", b"one")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(close, producer)
    assert found == [[b"one"]] * 3
    async with producer:  # it can be opened again
        await producer.send("orders", b"two")
    assert sorted(values(broker), key=str) == [b"one", b"two"]


async def test_one_of_those_who_close_it_gets_the_error(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, before_ms=100, error=ErrorCode.INVALID_RECORD)
    found: list[str] = []

    async def close(producer: Producer) -> None:
        try:
            await producer.close()
            found.append("closed")
        except BrokerError as error:
            found.append(error.name)

    async with Producer(broker.bootstrap) as producer:
        await producer.enqueue("orders", b"one")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(close, producer)
    assert sorted(found) == ["INVALID_RECORD", "closed", "closed"]


async def test_records_without_key_are_spread(broker: Broker) -> None:
    async with Producer(broker.bootstrap, batch_bytes=200) as producer:
        sends = [await producer.enqueue("orders", b"x" * 50) for _ in range(60)]
        assert {(await send).partition for send in sends} == {0, 1, 2}


@pytest.mark.lengthy
async def test_each_task_is_told_of_its_records_by_flush(broker: Broker) -> None:
    """In turn and at the same time; also if there are more failures than are kept."""
    broker.faults.add(ProduceRequest, times=None, error=ErrorCode.INVALID_RECORD)
    told: list[int] = []

    async def write(producer: Producer, number: int, others: anyio.Event, done: anyio.Event) -> None:
        await producer.enqueue("orders", b"%d" % number, partition=number)
        await others.wait()
        with pytest.raises(BrokerError, match="INVALID_RECORD"):
            await producer.flush()
        told.append(number)
        done.set()
        await producer.flush()

    async with Producer(broker.bootstrap) as opened:
        for _ in range(150):
            with pytest.raises(BrokerError):
                await opened.send("orders", b"seen", partition=2)
        events = [anyio.Event() for _ in range(3)]
        events[0].set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, opened, 0, events[0], events[1])
            tasks.start_soon(write, opened, 1, events[1], events[2])
        assert told == [0, 1]
        await opened.enqueue("orders", b"ours", partition=0)
        errors: list[BrokerError] = []

        async def flush() -> None:
            with pytest.raises(BrokerError) as raised:
                await opened.flush()
            errors.append(raised.value)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(flush)
        assert len(errors) == 3
        with pytest.raises(BrokerError):
            await opened.flush()
        await opened.flush()


@pytest.mark.lengthy
async def test_more_failures_than_anybody_remembers(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, times=None, error=ErrorCode.INVALID_RECORD)
    async with Producer(broker.bootstrap, batch_bytes=1) as producer:
        sends = [await producer.enqueue("orders", b"x", partition=0) for _ in range(300)]
        for send in sends[1:]:
            with pytest.raises(BrokerError):
                await send
        with pytest.raises(BrokerError):
            await producer.flush()


FORGETFUL = """
import asyncio, sys, warnings
from kshare import Producer
import kshare.sync

warnings.simplefilter("always")

async def main():
    producer = Producer(sys.argv[1], linger=60)
    await producer.__aenter__()
    for number in range(3):
        await producer.enqueue("orders", b"lost")

if sys.argv[2] == "sync":
    producer = kshare.sync.Producer(sys.argv[1], linger=60).__enter__()
    for number in range(3):
        producer.enqueue("orders", b"lost")
elif sys.argv[2] == "trio":
    import trio
    trio.run(main)
else:
    asyncio.run(main())
"""


@pytest.mark.lengthy
@pytest.mark.parametrize("how", ["asyncio", "trio", "sync"])
def test_exit_without_close_says_that_records_may_be_lost(broker: Broker, how: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORGETFUL, broker.bootstrap, how],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "ResourceWarning: a producer wasn't closed" in ended.stderr
    assert ended.stderr.count("lost: 3 of them") <= 1
    assert "maybe not written: 3 records" in ended.stderr or "lost: 3 of them" in ended.stderr
    assert values(broker) == []
