"""Transactions with an embedded broker: committed, aborted, fenced, and with lost responses."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare import BrokerError, ConfigError, KshareError, Producer, ProducerFenced
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import AddPartitionsToTxnRequest, EndTxnRequest, ProduceRequest
from kshare.testing import Broker
from tests.helpers.committed import committed

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders", 2)
    return kshare_broker


def producer(broker: Broker, **options: Any) -> Producer:
    chosen: dict[str, Any] = {"transactional_id": "shop", "request_timeout": 2, "delivery_timeout": 5}
    return Producer(broker.bootstrap, **(chosen | options))


async def test_committed_and_aborted_transactions(broker: Broker) -> None:
    async def abort() -> None:
        async with opened.transaction():
            await opened.send("orders", b"c", partition=0)
            await opened.enqueue("orders", b"d", partition=0)
            raise ZeroDivisionError

    async with producer(broker) as opened:
        async with opened.transaction():
            await opened.enqueue("orders", b"a", partition=0)
            await opened.send("orders", b"b", partition=1)
        with pytest.raises(ZeroDivisionError):
            await abort()
        async with opened.transaction():
            pass
        async with opened.transaction():
            await opened.send("orders", b"e", partition=0)
    assert await committed(broker.bootstrap, "orders") == [b"a", b"e", b"b"]


async def test_cancelled_transaction_is_aborted(broker: Broker) -> None:
    async with producer(broker) as opened:
        with anyio.CancelScope() as scope:
            async with opened.transaction():
                await opened.send("orders", b"a", partition=0)
                scope.cancel()
                await anyio.sleep_forever()
        async with opened.transaction():
            await opened.send("orders", b"b", partition=0)
    assert await committed(broker.bootstrap, "orders") == [b"b"]


@pytest.mark.parametrize("is_caught", [True, False])
async def test_record_that_was_not_written_aborts_the_transaction(broker: Broker, is_caught: bool) -> None:
    async def fail() -> None:
        async with opened.transaction():
            await opened.send("orders", b"a", partition=1)
            broker.faults.add(ProduceRequest, error=ErrorCode.INVALID_RECORD)
            send = await opened.enqueue("orders", b"b", partition=0)
            if is_caught:
                with pytest.raises(BrokerError):
                    await send
                with pytest.raises(BrokerError):
                    await opened.send("orders", b"c", partition=1)

    async with producer(broker) as opened:
        with pytest.raises(BrokerError, match=r"writing to orders\[0\]: INVALID_RECORD"):
            await fail()
        async with opened.transaction():
            await opened.send("orders", b"d", partition=0)
    assert await committed(broker.bootstrap, "orders") == [b"d"]


async def test_newer_producer_fences_an_older_one(broker: Broker) -> None:
    async with producer(broker) as older, producer(broker) as newer:
        async with newer.transaction():
            await newer.send("orders", b"new", partition=0)
        with pytest.raises(ProducerFenced, match=r"transactional id shop: .*a newer producer has this id"):
            async with older.transaction():
                await older.send("orders", b"old", partition=0)
        with pytest.raises(ProducerFenced):
            async with older.transaction():
                pass
    assert await committed(broker.bootstrap, "orders") == [b"new"]


async def test_producer_that_is_fenced_within_a_transaction(broker: Broker) -> None:
    async def write() -> None:
        async with older.transaction():
            await older.send("orders", b"old", partition=0)
            async with producer(broker):
                await older.send("orders", b"older", partition=0)

    async with producer(broker) as older:
        with pytest.raises(ProducerFenced):
            await write()
    assert await committed(broker.bootstrap, "orders") == []


@pytest.mark.lengthy
@pytest.mark.parametrize("api", [AddPartitionsToTxnRequest, ProduceRequest, EndTxnRequest])
@pytest.mark.parametrize("fault", [{"hang_up": True}, {"cut_after": 3}, {"after_ms": 300}])
async def test_lost_requests_and_responses(broker: Broker, api: Any, fault: dict[str, Any]) -> None:
    broker.faults.add(api, **fault)
    async with producer(broker, request_timeout=1) as opened, opened.transaction():
        for value in (b"a", b"b"):
            await opened.send("orders", value, partition=0)
    assert await committed(broker.bootstrap, "orders") == [b"a", b"b"]


async def test_commit_without_response_is_open(broker: Broker) -> None:
    async with producer(broker, request_timeout=0.5) as opened:
        fault = broker.faults.add(EndTxnRequest, times=None, mute=True)
        with pytest.raises(KshareError, match="it isn't known whether the transaction was committed"):
            async with opened.transaction():
                await opened.send("orders", b"a", partition=0)
        fault.stop()
        async with opened.transaction():
            await opened.send("orders", b"b", partition=0)
    assert await committed(broker.bootstrap, "orders") == [b"a", b"b"]


async def test_calls_at_the_wrong_time(broker: Broker) -> None:
    async with producer(broker) as opened:
        with pytest.raises(KshareError, match="writes in transactions"):
            await opened.send("orders", b"a")
        async with opened.transaction():
            with pytest.raises(KshareError, match="a transaction is open already"):
                async with opened.transaction():
                    pass
    async with Producer(broker.bootstrap) as plain:
        with pytest.raises(ConfigError, match="open the producer with transactional_id"):
            async with plain.transaction():
                pass
