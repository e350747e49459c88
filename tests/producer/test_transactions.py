"""Transactions with an embedded broker: committed, aborted, fenced, and with lost responses."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare import (
    BrokerError,
    CommitUnknown,
    ConfigError,
    KshareError,
    Producer,
    ProducerFenced,
    RequestTimedOut,
)
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    ProduceRequest,
)
from kshare.testing import Broker
from tests.helpers.committed import committed
from tests.helpers.plain_client import plain_client

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders", 2)
    return kshare_broker


def producer(broker: Broker, **options: Any) -> Producer:
    chosen: dict[str, Any] = {"transactional_id": "shop", "request_timeout": 2, "delivery_timeout": 5}
    return Producer(broker.bootstrap, **(chosen | options))


@pytest.mark.lengthy
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


@pytest.mark.lengthy
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


@pytest.mark.lengthy
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


@pytest.mark.lengthy
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


@pytest.mark.lengthy
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


@pytest.mark.lengthy
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


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ],
)
async def test_commit_is_open_whatever_follows_a_lost_response(broker: Broker, code: ErrorCode) -> None:
    async with producer(broker, request_timeout=0.5) as opened:
        broker.faults.add(EndTxnRequest, hang_up=False, cut_after=3)
        broker.faults.add(EndTxnRequest, times=None, error=code)
        with pytest.raises(CommitUnknown, match=f"whether the transaction was committed: .*{code.name}"):
            async with opened.transaction():
                await opened.send("orders", b"a", partition=0)
    assert await committed(broker.bootstrap, "orders") == [b"a"]


@pytest.mark.lengthy
async def test_commit_that_was_refused_is_aborted(broker: Broker) -> None:
    async with producer(broker) as opened:
        broker.faults.add(EndTxnRequest, error=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        with pytest.raises(BrokerError, match="committing the transaction of shop"):
            async with opened.transaction():
                await opened.send("orders", b"a", partition=0)
        assert await committed(broker.bootstrap, "orders") == []
        async with opened.transaction():
            await opened.send("orders", b"b", partition=0)
    assert await committed(broker.bootstrap, "orders") == [b"b"]


@pytest.mark.lengthy
async def test_coordinator_that_was_never_reached_leaves_nothing_open(broker: Broker) -> None:
    async def write() -> None:
        async with opened.transaction():
            await opened.send("orders", b"a", partition=0)
            broker.faults.add(FindCoordinatorRequest, times=None, swallow=True)

    async with producer(broker, request_timeout=0.5) as opened:
        with pytest.raises(RequestTimedOut) as caught:
            await write()
        assert not isinstance(caught.value, CommitUnknown)
        broker.faults.stop()
        async with opened.transaction():
            await opened.send("orders", b"b", partition=0)
    assert await committed(broker.bootstrap, "orders") == [b"b"]


@pytest.mark.lengthy
@pytest.mark.parametrize(("api", "version"), [(AddPartitionsToTxnRequest, 3), (EndTxnRequest, 4)])
async def test_late_requests_of_a_transaction_change_nothing(broker: Broker, api: Any, version: int) -> None:
    """A request that got no response arrives when the next transaction is under way."""
    host, _, port = broker.bootstrap.rpartition(":")
    lost: list[Any] = []
    async with producer(broker, request_timeout=1) as opened:
        broker.faults.add(api, hang_up=True, when=lambda request: not lost.append(request))  # type: ignore[func-returns-value]
        async with opened.transaction():
            await opened.send("orders", b"a", partition=0)
        async with opened.transaction():
            await opened.send("orders", b"b", partition=0)
            with plain_client((host, int(port))) as client:
                client.ask(lost[0], version)
            await opened.send("orders", b"c", partition=1)
            open_in = broker.call(lambda: broker.state.transactions.by_id["shop"].partitions)
            assert len(open_in) == 2
    assert await committed(broker.bootstrap, "orders") == [b"a", b"b", b"c"]


@pytest.mark.lengthy
async def test_records_of_other_tasks_are_refused_during_the_commit(broker: Broker) -> None:
    outcomes: list[str] = []

    async def write(is_done: anyio.Event) -> None:
        while not is_done.is_set():
            try:
                await opened.enqueue("orders", b"%d" % len(outcomes), partition=0)
            except KshareError as error:
                outcomes.append(str(error))
            else:
                outcomes.append("")
            await anyio.sleep(0.002)

    async with producer(broker) as opened, anyio.create_task_group() as tasks:
        broker.faults.add(EndTxnRequest, before_ms=50)
        is_done = anyio.Event()
        async with opened.transaction():
            tasks.start_soon(write, is_done)
            await anyio.sleep(0.02)
        is_done.set()
    assert "the transaction is being ended: write within the next one" in outcomes
    assert await committed(broker.bootstrap, "orders") == [
        b"%d" % number for number, problem in enumerate(outcomes) if not problem
    ]


@pytest.mark.lengthy
async def test_record_that_waits_for_room_does_not_get_into_the_next_transaction(broker: Broker) -> None:
    problems: list[str] = []

    async def write() -> None:
        try:
            await opened.send("orders", bytes(600), partition=0)
        except KshareError as error:
            problems.append(str(error))

    async def fail() -> None:
        async with opened.transaction():
            await opened.enqueue("orders", bytes(700), partition=0)
            tasks.start_soon(write)
            await anyio.sleep(0.01)
            raise ZeroDivisionError

    async with producer(broker, buffer_bytes=1000) as opened, anyio.create_task_group() as tasks:
        fault = broker.faults.add(ProduceRequest, times=None, before_ms=100)
        with pytest.raises(ZeroDivisionError):
            await fail()
        fault.stop()
        async with opened.transaction():
            await opened.send("orders", b"next", partition=0)
    assert problems
    assert await committed(broker.bootstrap, "orders") == [b"next"]


@pytest.mark.lengthy
@pytest.mark.parametrize("is_ended", [False, True], ids=["in the block", "while it ends"])
async def test_producer_that_is_closed_in_a_transaction_aborts_it(broker: Broker, is_ended: bool) -> None:
    async def write() -> None:
        async with opened.transaction():
            await opened.send("orders", b"a", partition=0)
            if is_ended:
                broker.faults.add(ProduceRequest, before_ms=300)
                await opened.enqueue("orders", b"b", partition=1)
                tasks.start_soon(opened.close)
            else:
                await opened.close()

    async with anyio.create_task_group() as tasks:
        opened = producer(broker)
        await opened.__aenter__()
        with anyio.fail_after(5), pytest.raises(KshareError, match=r"closed before its end|was aborted"):
            await write()
    assert await committed(broker.bootstrap, "orders") == []
    known = broker.call(lambda: broker.state.transactions.by_id["shop"])
    assert known.state == "CompleteAbort"


@pytest.mark.lengthy
@pytest.mark.parametrize("fault", [{"after_ms": 4000}, {"mute": True}], ids=["late", "lost"])
async def test_commit_is_open_if_the_producer_is_closed_before_its_response(
    broker: Broker, fault: dict[str, Any]
) -> None:
    broker.faults.add(EndTxnRequest, **fault)
    opened = producer(broker, close_timeout=0.5)

    async def close() -> None:
        with anyio.fail_after(5):
            while broker.call(lambda: broker.state.transactions.by_id["shop"].state) != "CompleteCommit":
                await anyio.sleep(0.02)
        await opened.close()

    async with anyio.create_task_group() as tasks:
        await opened.__aenter__()
        tasks.start_soon(close)
        with (
            anyio.fail_after(8),
            pytest.raises(CommitUnknown, match="closed before the transaction had ended"),
        ):
            async with opened.transaction():
                await opened.send("orders", b"a", partition=0)


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
