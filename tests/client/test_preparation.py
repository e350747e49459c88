"""Async deserializers: whole batches are deserialized before they are handed out, and nothing is lost by cancelling."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kshare import ConsumerClosed, DeserializationFailed, DeserializerContext, ShareConsumer
from kshare.client.deserialize import Reader
from kshare.client.preparation import AT_ONCE, Preparer
from kshare.client.record import ShareBatch, lease_of
from kshare.engine.events import Event, LeaseLost
from kshare.state.lease import ACCEPT, HELD, LOST, REJECT
from tests.fakes.batches import batch
from tests.fakes.tiny_cluster import ACCEPTED, ACQUIRED, ARCHIVED, AVAILABLE, TinyCluster
from tests.helpers.consuming import DEADLINE_S, consumer, until

pytestmark = pytest.mark.anyio


class Fetching:
    """Deserializers that wait until the test lets them go on."""

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self.at_once = 0
        self.most_at_once = 0
        self.may_finish = anyio.Event()

    async def read(self, data: bytes) -> int:
        self.calls[int(data)] += 1
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await self.may_finish.wait()
        finally:
            self.at_once -= 1
        if int(data) % 5 == 3:
            raise ValueError(data)
        return int(data)


async def read_at_once(data: bytes) -> int:
    return int(data)


async def read_later(data: bytes) -> int:
    await anyio.lowlevel.checkpoint()
    return int(data)


def preparer(value: Any, max_seconds: float = 100.0, **options: Any) -> tuple[Preparer, list[ShareBatch]]:
    cancelled: list[ShareBatch] = []
    return Preparer(Reader(None, value, **options), max_seconds, cancelled.append), cancelled


def values_of(prepared: ShareBatch) -> list[Any]:
    return [record.value for record in prepared]


def filled(count: int) -> TinyCluster:
    cluster = TinyCluster("t")
    cluster.topics["t"].append(*(b"%d" % number for number in range(count)))
    return cluster


# --- one batch


@pytest.mark.parametrize("function", [read_at_once, read_later])
async def test_a_batch_is_deserialized_before_it_is_handed_out(function: Any) -> None:
    source, one = preparer(function)[0], batch(10, 50)
    assert await source.prepare(one)
    assert values_of(one) == list(range(10, 60))
    assert values_of(one) == list(range(10, 60)), "as often as it is iterated"
    assert one.values()[0] == b"10"


async def test_several_records_are_deserialized_at_once() -> None:
    fetching = Fetching()
    source = preparer(fetching.read, on_poison="reject")[0]
    one = batch(0, 3 * AT_ONCE)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.prepare, one)
        await until(lambda: fetching.at_once == AT_ONCE)
        fetching.may_finish.set()
    assert fetching.most_at_once == AT_ONCE
    assert set(fetching.calls.values()) == {1}
    assert len(values_of(one)) == 39


async def test_only_one_of_the_two_has_to_be_async() -> None:
    def size(data: bytes, context: DeserializerContext) -> tuple[int, str]:
        return len(data), context.part

    one = batch(0, 2)
    assert await Preparer(Reader(read_at_once, size), 100.0, print).prepare(one)
    assert values_of(one) == [(1, "value")] * 2


async def test_a_failure_takes_effect_when_the_turn_of_its_record_comes() -> None:
    fetching = Fetching()
    fetching.may_finish.set()
    source, one = preparer(fetching.read, on_poison="reject")[0], batch(2, 3)
    await source.prepare(one)
    assert list(lease_of(one).states) == [HELD] * 3
    assert values_of(one) == [2, 4]
    assert list(lease_of(one).states) == [HELD, REJECT, HELD]


async def test_a_raised_failure_has_the_record() -> None:
    fetching = Fetching()
    fetching.may_finish.set()
    source, one = preparer(fetching.read)[0], batch(3, 2)
    await source.prepare(one)
    records = iter(one)
    with pytest.raises(DeserializationFailed, match=r"t\[0\]@3: its value") as caught:
        next(records)
    assert caught.value.record.value == b"3"
    assert next(records).offset == 4


async def test_what_was_deserialized_before_a_cancellation_is_kept() -> None:
    fetching = Fetching()
    calls: Counter[int] = Counter()

    async def read(data: bytes) -> int:
        calls[int(data)] += 1
        return int(data) if int(data) < 4 else await fetching.read(data)

    source, cancelled = preparer(read, on_poison="reject")
    one = batch(0, 8)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(source.prepare, one)
            await until(lambda: fetching.at_once == 4)
            scope.cancel()
    assert cancelled == [one]
    fetching.may_finish.set()
    await source.prepare(one)
    assert values_of(one) == list(range(8))
    assert calls == {number: 1 if number < 4 else 2 for number in range(8)}


async def test_lost_records_are_not_deserialized() -> None:
    source, one = preparer(read_at_once)[0], batch(0, 3)
    lease_of(one).lose()
    assert not await source.prepare(one)
    assert list(lease_of(one).states) == [LOST] * 3


async def test_records_that_take_too_long_are_never_rejected() -> None:
    source, one = preparer(Fetching().read, max_seconds=0.01, on_poison="reject")[0], batch(0, 1)
    assert await source.prepare(one)
    with pytest.raises(DeserializationFailed, match="RequestTimedOut"):
        next(iter(one))
    assert list(lease_of(one).states) == [HELD]


async def test_interrupts_are_not_failures() -> None:
    async def interrupt(data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        raise SystemExit

    source, cancelled = preparer(interrupt)
    one = batch(0, 2)
    with pytest.raises(SystemExit):
        await source.prepare(one)
    assert cancelled == [one]


# --- a consumer


async def test_records_come_deserialized_in_order() -> None:
    got: list[Any] = []
    async with filled(100).running() as cluster:
        async with consumer(cluster, "t", value_deserializer=read_later) as source:
            with anyio.fail_after(DEADLINE_S):
                async for record in source:
                    got.append(record.value)
                    if len(got) == 100:
                        record.accept()
                        break
        assert got == list(range(100))
        assert set(cluster.topics["t"].states) == {ACCEPTED}


async def test_batches_come_deserialized_too() -> None:
    got: list[Any] = []
    async with filled(100).running() as cluster:
        async with consumer(cluster, "t", value_deserializer=read_later) as source:
            with anyio.fail_after(DEADLINE_S):
                async for batch in source.batches():
                    got += values_of(batch)
                    if len(got) == 100:
                        batch.accept()
                        break
        assert got == list(range(100))


async def test_poison_is_rejected_record_by_record() -> None:
    fetching = Fetching()
    fetching.may_finish.set()
    async with filled(5).running() as cluster:
        async with consumer(cluster, "t", value_deserializer=fetching.read, on_poison="reject") as source:
            with anyio.fail_after(DEADLINE_S):
                got: list[Any] = [(await anext(aiter(source))).value for _ in range(4)]
        assert got == [0, 1, 2, 4]
        assert cluster.topics["t"].states[3] == ARCHIVED


async def next_batch(source: ShareConsumer) -> ShareBatch:
    with anyio.fail_after(DEADLINE_S):
        return await source.next_batch()


@pytest.mark.parametrize("is_loop", [True, False])
async def test_cancelling_loses_no_record(is_loop: bool) -> None:
    fetching = Fetching()
    async with filled(3).running() as cluster:
        async with consumer(cluster, "t", value_deserializer=fetching.read) as source:

            async def ask() -> None:
                await (anext(aiter(source)) if is_loop else source.next_batch())

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await until(lambda: fetching.at_once == 3)
                tasks.cancel_scope.cancel()
            fetching.may_finish.set()
            assert values_of(await next_batch(source)) == [0, 1, 2]
        assert set(cluster.topics["t"].states) == {AVAILABLE}, "closing releases what wasn't accepted"


@pytest.mark.lengthy
async def test_another_loop_gets_what_a_cancelled_one_was_preparing() -> None:
    fetching = Fetching()
    got: list[Any] = []

    async def work(source: ShareConsumer, scope: anyio.CancelScope) -> None:
        with scope:
            async for record in source:
                got.extend([record.value])

    first, second = anyio.CancelScope(), anyio.CancelScope()
    async with (
        filled(3).running() as cluster,
        consumer(cluster, "t", value_deserializer=fetching.read) as source,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(work, source, first)
        await until(lambda: fetching.at_once == 3)
        tasks.start_soon(work, source, second)
        await anyio.lowlevel.checkpoint()
        first.cancel()
        fetching.may_finish.set()
        await until(lambda: got == [0, 1, 2])
        second.cancel()


@pytest.mark.lengthy
async def test_locks_are_renewed_while_a_batch_is_prepared() -> None:
    fetching = Fetching()
    cluster = filled(3)
    cluster.lock_ms = 500
    async with (
        cluster.running(),
        consumer(cluster, "t", value_deserializer=fetching.read) as source,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(next_batch, source)
        await until(lambda: renewals(cluster) >= 3)
        assert cluster.topics["t"].states == [ACQUIRED] * 3
        fetching.may_finish.set()


@pytest.mark.lengthy
async def test_what_nobody_asks_for_again_is_released() -> None:
    fetching = Fetching()
    cluster = filled(3)
    cluster.lock_ms = 500
    async with cluster.running(), consumer(cluster, "t", value_deserializer=fetching.read) as source:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(next_batch, source)
            await until(lambda: fetching.at_once == 3)
            tasks.cancel_scope.cancel()
        await until(lambda: set(cluster.topics["t"].states) == {AVAILABLE})


def renewals(cluster: TinyCluster) -> int:
    return sum(getattr(one, "is_renew_ack", False) for _, one in cluster.requests)


@pytest.mark.lengthy
async def test_a_batch_whose_lock_was_lost_meanwhile_is_not_handed_out() -> None:
    fetching = Fetching()
    events: list[Event] = []
    got: list[int] = []

    async def work(source: ShareConsumer) -> None:
        got.append((await source.next_batch()).delivery_count)

    async with (
        filled(3).running() as cluster,
        consumer(cluster, "t", value_deserializer=fetching.read, observer=events.append) as source,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(work, source)
        await until(lambda: fetching.at_once == 3)
        await cluster.hang_up()
        await until(lambda: any(isinstance(event, LeaseLost) for event in events))
        fetching.may_finish.set()
        await until(lambda: got != [])
    assert got == [2]


async def test_closing_ends_a_preparation() -> None:
    fetching = Fetching()
    async with (
        filled(3).running() as cluster,
        consumer(cluster, "t", value_deserializer=fetching.read) as source,
    ):
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(ConsumerClosed):
                    await source.next_batch()

            tasks.start_soon(wait)
            await until(lambda: fetching.at_once == 3)
            await source.close()
        assert fetching.at_once == 0
        assert set(cluster.topics["t"].states) == {AVAILABLE}


async def test_accepting_works_as_ever() -> None:
    async with filled(2).running() as cluster:
        async with consumer(
            cluster, "t", value_deserializer=read_later, acknowledgement="explicit"
        ) as source:
            one = await next_batch(source)
            next(iter(one)).accept()
            assert lease_of(one).states[0] == ACCEPT
        assert cluster.topics["t"].states == [ACCEPTED, AVAILABLE]
