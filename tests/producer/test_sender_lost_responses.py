"""Three nodes that lose responses, and report errors after they have appended: what is said of each record is so."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import anyio
import pytest

from kshare import DeliveryFailed, Producer
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest
from kshare.testing import Broker
from tests.helpers.committed import records_by_partition
from tests.helpers.fates import Fates

pytestmark = pytest.mark.anyio

PARTITIONS = 3
RECORDS = 300


def with_error(code: ErrorCode) -> Callable[[Any], None]:
    """Changes a response to what a leader says if it can't wait for the replicas."""

    def change(response: Any) -> None:
        for topic in response.responses:
            for row in topic.partition_responses:
                row.error_code = code

    return change


AFTER_APPENDING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


@pytest.mark.lengthy
@pytest.mark.parametrize("code", AFTER_APPENDING)
async def test_error_after_the_append_leaves_the_record_open(kshare_broker: Broker, code: ErrorCode) -> None:
    kshare_broker.create_topic("orders", 1)
    async with Producer(kshare_broker.bootstrap, delivery_timeout=0.5, linger=0) as producer:
        kshare_broker.faults.add(ProduceRequest, change=with_error(code))
        later = kshare_broker.faults.add(ProduceRequest, times=None, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        with pytest.raises(DeliveryFailed, match="may have been written"):
            await producer.send("orders", b"one", partition=0)
        later.stop()
        second = await producer.send("orders", b"two", partition=0)
    assert second.offset == 1
    assert [record.value for record in kshare_broker.records("orders")] == [b"one", b"two"]


@pytest.mark.lengthy
async def test_an_offset_is_asked_for_again_if_it_is_missing(kshare_broker: Broker) -> None:
    def forget(response: Any) -> None:
        response.responses[0].partition_responses[0].base_offset = -1

    kshare_broker.create_topic("orders", 1)
    async with Producer(kshare_broker.bootstrap) as producer:
        kshare_broker.faults.add(ProduceRequest, change=forget)
        assert (await producer.send("orders", b"one")).offset == 0
    assert len(kshare_broker.records("orders")) == 1


def faults(random: Random) -> dict[str, Any]:
    """One that loses a response, changes it, or keeps the request from being executed."""
    return random.choice(
        [
            {"change": with_error(random.choice(AFTER_APPENDING))},
            {"error": random.choice(AFTER_APPENDING)},
            {"error": ErrorCode.NOT_ENOUGH_REPLICAS},
            {"error": ErrorCode.MESSAGE_TOO_LARGE},
            {"hang_up": True},
            {"mute": True},
            {"swallow": True},
            {"cut_after": 3},
            {"after_ms": 150},
        ]
    )


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(2))
async def test_storm(kshare_cluster: Broker, seed: int) -> None:
    random = Random(seed)
    kshare_cluster.create_topic("orders", PARTITIONS)
    fates, sends, injected = Fates(), [], []
    async with Producer(
        kshare_cluster.bootstrap, request_timeout=0.4, delivery_timeout=0.5, linger=0.002, batch_bytes=200
    ) as producer:
        await producer.send("orders", b"first", partition=0)
        for number in range(RECORDS):
            if number % 4 == 0:
                chosen = [faults(random) for _ in range(random.randrange(3))]
                injected += [kshare_cluster.faults.add(ProduceRequest, **fault) for fault in chosen]
            if number % 20 == 0:
                place = random.randrange(PARTITIONS)
                kshare_cluster.move_leader("orders", place, random.randrange(3) + 1)
            value = b"%d" % number
            sends.append((value, await producer.enqueue("orders", value, partition=number % PARTITIONS)))
            await anyio.sleep(random.choice([0, 0, 0.01]))
        for value, send in sends:
            await fates.note(value, send)
        for fault in injected:
            fault.stop()
        for partition in range(PARTITIONS):
            await is_written_again(producer, fates, partition)
    logs = await records_by_partition(kshare_cluster.bootstrap, "orders")
    assert fates.contradictions(logs) == []
    assert fates.open
    assert not {value for value, _ in sends} - fates.written.keys() - fates.open - fates.not_written.keys()


async def is_written_again(producer: Producer, fates: Fates, partition: int) -> None:
    """On a busy machine, that may take more than one record."""
    with anyio.fail_after(60):
        for number in count():
            value = b"%d after the storm in %d" % (number, partition)
            await fates.note(value, await producer.enqueue("orders", value, partition=partition))
            if value in fates.written:
                return
