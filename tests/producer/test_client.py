"""`Producer` with an embedded broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kshare import KshareError, Produced, Producer
from kshare.producer.partitioner import partition_for
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


async def test_thousands_of_records_in_flight_keep_their_order(broker: Broker, producer: Producer) -> None:
    sends = [await producer.enqueue("orders", b"%d" % number, key=b"k") for number in range(5000)]
    await producer.flush()
    assert [send.result().offset for send in sends] == list(range(5000))
    assert values(broker) == [b"%d" % number for number in range(5000)]


async def test_end_of_the_block_writes_what_is_left(broker: Broker) -> None:
    async with Producer(broker.bootstrap, linger=60) as producer:
        await producer.enqueue("orders", b"one")
    assert values(broker) == [b"one"]
    with pytest.raises(KshareError, match="isn't open"):
        await producer.send("orders", b"two")


async def test_records_without_key_are_spread(broker: Broker) -> None:
    async with Producer(broker.bootstrap, batch_bytes=200) as producer:
        sends = [await producer.enqueue("orders", b"x" * 50) for _ in range(60)]
        assert {(await send).partition for send in sends} == {0, 1, 2}
