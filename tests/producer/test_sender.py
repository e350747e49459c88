"""Lost responses, moving leaders and refusals: nothing is lost, doubled or reordered, and errors say what happened."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare import BrokerError, ConfigError, DeliveryFailed, Producer
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest
from kshare.testing import Broker

pytestmark = pytest.mark.anyio

FAULTS: dict[str, dict[str, Any]] = {
    "hang up before": {"hang_up": True},
    "hang up after": {"cut_after": 3},
    "no response": {"mute": True},
    "not executed": {"swallow": True},
    "moved": {"error": ErrorCode.NOT_LEADER_OR_FOLLOWER},
    "too few replicas": {"error": ErrorCode.NOT_ENOUGH_REPLICAS},
    "late": {"after_ms": 400},
}


def producer(broker: Broker, **options: Any) -> Producer:
    return Producer(
        broker.bootstrap, **({"request_timeout": 0.3, "delivery_timeout": 20, "linger": 0} | options)
    )


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders", 2)
    return kshare_broker


def written(broker: Broker) -> list[bytes | None]:
    return [record.value for record in broker.records("orders")]


@pytest.mark.lengthy
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_record_is_written_once_and_in_order(broker: Broker, fault: str) -> None:
    numbers = [b"%d" % number for number in range(300)]
    for skip in (0, 2, 3):
        broker.faults.add(ProduceRequest, skip=skip, **FAULTS[fault])
    async with producer(broker, batch_bytes=500) as opened:
        sends = [await opened.enqueue("orders", value, partition=1) for value in numbers]
        results = [await send for send in sends]
    assert [result.offset for result in results] == list(range(300))
    assert written(broker) == numbers


@pytest.mark.lengthy
async def test_leader_moves_to_another_node(kshare_cluster: Broker) -> None:
    kshare_cluster.create_topic("orders", 1)
    async with producer(kshare_cluster, request_timeout=5) as opened:
        for number in range(6):
            kshare_cluster.move_leader("orders", 0, number % 3 + 1)
            assert (await opened.send("orders", b"%d" % number)).offset == number


@pytest.mark.lengthy
async def test_expired_record_is_open_and_the_next_one_is_not_taken_for_a_duplicate(broker: Broker) -> None:
    async with producer(broker, delivery_timeout=0.5) as opened:
        fault = broker.faults.add(ProduceRequest, times=None, mute=True)
        with pytest.raises(DeliveryFailed, match=r"orders\[0\]: the record may have been written") as raised:
            await opened.send("orders", b"one", partition=0)
        assert raised.value.is_open
        fault.stop()
        assert (await opened.send("orders", b"two", partition=0)).offset == 1
    assert written(broker) == [b"one", b"two"]


@pytest.mark.lengthy
async def test_expired_record_that_no_broker_accepted_was_not_written(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, times=None, error=ErrorCode.NOT_ENOUGH_REPLICAS)
    async with producer(broker, delivery_timeout=0.3) as opened:
        with pytest.raises(DeliveryFailed, match=r"was not written.*NOT_ENOUGH_REPLICAS") as raised:
            await opened.send("orders", b"one")
    assert not raised.value.is_open
    assert written(broker) == []


async def test_refusal_names_the_partition_and_later_records_are_written(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, error=ErrorCode.INVALID_RECORD)
    async with producer(broker) as opened:
        with pytest.raises(BrokerError, match=r"writing to orders\[1\]: INVALID_RECORD"):
            await opened.send("orders", b"one", partition=1)
        assert (await opened.send("orders", b"two", partition=1)).offset == 0


@pytest.mark.lengthy
async def test_unexpected_sequence_number_is_corrected(broker: Broker) -> None:
    async with producer(broker) as opened:
        await opened.send("orders", b"one", partition=1)
        broker.faults.add(ProduceRequest, error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        assert (await opened.send("orders", b"two", partition=1)).offset == 1


async def test_only_the_record_that_is_too_large_fails(broker: Broker) -> None:
    broker.set_topic_config("orders", {"max.message.bytes": "400"})
    async with producer(broker, linger=60) as opened:
        values = [b"a" * 100, b"b" * 100, b"c" * 1000, b"d" * 100]
        sends = [await opened.enqueue("orders", value, partition=0) for value in values]
        with pytest.raises(BrokerError, match=r"writing to orders\[0\]: MESSAGE_TOO_LARGE"):
            await opened.flush()
        assert [send.is_done for send in sends] == [True] * 4
    assert written(broker) == [values[0], values[1], values[3]]


async def test_unknown_topic_and_partition(broker: Broker) -> None:
    async with producer(broker) as opened:
        with pytest.raises(ConfigError, match=r"topic orders has no partition 7 \(it has 2 partitions\)"):
            await opened.send("orders", b"one", partition=7)
        with pytest.raises(BrokerError, match="topic bad name: INVALID_TOPIC_EXCEPTION"):
            await opened.send("bad name", b"one")


async def test_a_partition_that_was_added_meanwhile(broker: Broker) -> None:
    async with producer(broker) as opened:
        await opened.send("orders", b"one", partition=1)
        cluster = broker.state.cluster
        broker.call(lambda: cluster.add_partitions(cluster.topics["orders"], 3))
        assert (await opened.send("orders", b"two", partition=2)).partition == 2


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"value": "text"}, "value must be bytes or None, not str"),
        ({"value": b"", "key": 7}, "key must be bytes or None, not int"),
        ({"value": b"", "headers": {"a": b"b"}}, "headers must be pairs"),
        ({"value": b"", "headers": 5}, "headers must be pairs"),
        ({"value": b"", "headers": [("a", "b")]}, "header a must be bytes"),
        ({"value": b"", "timestamp": 1.5}, "timestamp must be whole milliseconds"),
        ({"value": b"", "timestamp": 2**63}, "timestamp must be whole milliseconds"),
        ({"value": b"", "timestamp": -2}, "timestamp must be whole milliseconds"),
        ({"value": b"", "headers": [("\ud800", b"")]}, "can't be encoded as UTF-8"),
        ({"value": bytes(2000)}, "doesn't fit into the buffer"),
        ({"value": b"", "partition": 1.0}, "partition must be a whole number, not 1.0"),
        ({"value": b"", "partition": True}, "partition must be a whole number, not True"),
        ({"value": b"", "partition": [0]}, r"partition must be a whole number, not \[0\]"),
        ({"value": b"", "partition": -1}, "has no partition -1"),
    ],
)
async def test_invalid_records_are_refused_at_once(
    broker: Broker, record: dict[str, Any], problem: str
) -> None:
    async with producer(broker, buffer_bytes=1000) as opened:
        with pytest.raises(ConfigError, match=problem):
            await opened.send("orders", **record)


async def test_invalid_partition_leaves_other_records_alone(broker: Broker) -> None:
    async with producer(broker, linger=60) as opened:
        good = await opened.enqueue("orders", b"good", partition=1)
        with pytest.raises(ConfigError):
            await opened.enqueue("orders", b"bad", partition=1.0)  # type: ignore[arg-type]
        await opened.flush()
        assert (await good).offset == 0


async def test_awaited_record_does_not_linger_for_others(broker: Broker) -> None:
    async with producer(broker, linger=60, delivery_timeout=120) as opened:
        with anyio.fail_after(30):
            for number in range(3):
                assert (await opened.send("orders", b"%d" % number, partition=0)).offset == number


async def test_buffers_are_written_as_they_were_when_they_were_enqueued(broker: Broker) -> None:
    """Also if their items aren't single bytes: that would make the whole batch unreadable."""
    changed = bytearray(b"before")
    numbers = memoryview(b"x" * 40).cast("I")
    async with producer(broker, linger=60) as opened:
        await opened.enqueue("orders", b"neighbour", partition=0)
        await opened.enqueue("orders", changed, partition=0)  # type: ignore[arg-type]
        changed[:] = b"after "
        headers = iter([("a", memoryview(b"xyzw")[::2])])
        await opened.enqueue("orders", numbers, numbers[::2], headers, partition=0)  # type: ignore[arg-type]
        await opened.flush()
    first, second, third = broker.records("orders")
    assert (first.value, second.value) == (b"neighbour", b"before")
    assert (third.value, third.key, list(third.headers)) == (b"x" * 40, b"x" * 20, [("a", b"xz")])


@pytest.mark.lengthy
async def test_full_buffer_delays_and_then_refuses(broker: Broker) -> None:
    async with producer(broker, buffer_bytes=1000, delivery_timeout=0.4) as opened:
        sends = [await opened.enqueue("orders", bytes(300), partition=0) for _ in range(20)]
        assert [(await send).offset for send in sends] == list(range(20))
        broker.faults.add(ProduceRequest, times=None, swallow=True)
        for _ in range(2):
            await opened.enqueue("orders", bytes(300), partition=0)
        with pytest.raises(DeliveryFailed, match=r"may have been written.*not confirmed within 0\.4 s"):
            await opened.flush()


async def test_cancelled_send_disturbs_nobody(broker: Broker) -> None:
    async with producer(broker) as opened:
        fault = broker.faults.add(ProduceRequest, after_ms=100)
        others = [await opened.enqueue("orders", b"%d" % number, partition=0) for number in range(3)]
        with anyio.move_on_after(0.02):
            await opened.send("orders", b"cancelled", partition=0)
        later = await opened.send("orders", b"later", partition=0)
        assert fault.hits == 1
        assert [(await send).offset for send in others] == [0, 1, 2]
        assert later.offset == 4
    assert written(broker) == [b"0", b"1", b"2", b"cancelled", b"later"]


@pytest.mark.lengthy
async def test_what_is_cancelled_before_it_is_in_the_buffer_is_not_written(broker: Broker) -> None:
    async with producer(broker, buffer_bytes=4000) as opened:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await opened.send("orders", b"topic not known", partition=0)
        await opened.send("orders", b"0", partition=0)
        broker.faults.add(ProduceRequest, before_ms=300)
        await opened.enqueue("orders", bytes(1500), partition=0)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await opened.enqueue("orders", bytes(2500), partition=0)
        assert scope.cancelled_caught
        with anyio.CancelScope() as scope:
            scope.cancel()
            await opened.send("orders", b"buffered", partition=0)
        assert scope.cancelled_caught
    assert written(broker) == [b"0", bytes(1500), b"buffered"]


async def test_cancelled_block_still_writes_what_is_left(broker: Broker) -> None:
    with anyio.CancelScope() as scope:
        async with producer(broker, linger=60) as opened:
            await opened.enqueue("orders", b"one")
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert written(broker) == [b"one"]


@pytest.mark.lengthy
async def test_closing_has_a_deadline_and_says_what_was_not_written(broker: Broker) -> None:
    broker.faults.add(ProduceRequest, times=None, swallow=True)
    with pytest.raises(DeliveryFailed, match=r"may have been written.*the producer was closed") as raised:
        async with producer(broker, close_timeout=0.2) as opened:
            await opened.enqueue("orders", b"one", partition=0)
    assert raised.value.is_open
