"""Several loops over one consumer: they share its records, and what one leaves is offered to those that wait."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio
import pytest

from kshare import ConfigError, KshareError, ShareConsumer, ShareRecord
from kshare.protocol.messages import ShareFetchRequest
from kshare.testing import Broker
from tests.fakes.tiny_cluster import ACCEPTED, ACQUIRED, AVAILABLE, TinyCluster
from tests.helpers.consuming import DEADLINE_S, consumer, until
from tests.helpers.loop_checker import check_async

pytestmark = pytest.mark.anyio


def filled(count: int) -> TinyCluster:
    cluster = TinyCluster("t")
    cluster.topics["t"].append(*(b"%d" % number for number in range(count)))
    return cluster


class Takers:
    """Tasks that loop over one consumer, each in one of three ways. `got` has the offsets by task."""

    def __init__(self, source: ShareConsumer) -> None:
        self.source = source
        self.got: dict[str, list[int]] = {}

    @property
    def offsets(self) -> list[int]:
        return sorted(offset for offsets in self.got.values() for offset in offsets)

    async def records(self, name: str) -> None:
        got = self.got.setdefault(name, [])
        async for record in self.source:
            got.append(record.offset)
            await anyio.sleep(0.002)

    async def batches(self, name: str) -> None:
        got = self.got.setdefault(name, [])
        async for batch in self.source.batches():
            got += [record.offset for record in batch]
            await anyio.sleep(0.002)

    async def calls(self, name: str) -> None:
        got = self.got.setdefault(name, [])
        while True:
            batch = await self.source.next_batch()
            got += [record.offset for record in batch]
            await anyio.sleep(0.002)
            batch.accept()


@pytest.mark.lengthy
async def test_four_looping_tasks_all_get_records() -> None:
    async with filled(200).running() as cluster, consumer(cluster, "t") as source:
        takers = Takers(source)
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(takers.records, f"records {number}")
            await until(lambda: len(takers.offsets) == 200)
            await until(lambda: cluster.topics["t"].states.count(ACCEPTED) == 200)
            tasks.cancel_scope.cancel()
    assert takers.offsets == list(range(200))
    assert min(len(got) for got in takers.got.values()) >= 20, takers.got


@pytest.mark.lengthy
async def test_tasks_get_records_in_each_of_the_three_ways() -> None:
    async with filled(400).running() as cluster, consumer(cluster, "t", max_records=40) as source:
        takers = Takers(source)
        async with anyio.create_task_group() as tasks:
            for way in (takers.records, takers.batches, takers.calls):
                for number in range(2):
                    tasks.start_soon(way, f"{way.__name__} {number}")
            await until(lambda: len(takers.offsets) == 400)
            await until(lambda: cluster.topics["t"].states.count(ACCEPTED) == 400)
            tasks.cancel_scope.cancel()
    assert takers.offsets == list(range(400))
    assert all(takers.got.values()), takers.got


async def leave_by_break(source: ShareConsumer) -> None:
    async for _ in source:
        break


async def leave_by_an_error(source: ShareConsumer) -> None:
    with suppress(LookupError):
        async for _ in source:
            raise LookupError


async def leave_cancelled(source: ShareConsumer) -> None:
    with anyio.CancelScope() as scope:
        async for _ in source:
            scope.cancel()
            await anyio.sleep(DEADLINE_S)


LEAVE = [leave_by_break, leave_by_an_error, leave_cancelled]


@pytest.mark.lengthy
@pytest.mark.parametrize("leave", LEAVE)
@pytest.mark.parametrize("way", ["records", "batches", "calls"])
async def test_records_left_by_a_loop_go_to_waiting_loops(
    leave: Callable[[ShareConsumer], Coroutine[Any, Any, None]], way: str
) -> None:
    """The records it hadn't reached; in implicit mode also the one in hand, which the broker redelivers."""
    cluster = TinyCluster("t")
    async with cluster.running(), consumer(cluster, "t") as source:
        takers = Takers(source)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave, source)
            await until(lambda: source._holdings is not None and source._holdings.waiters == 1)
            tasks.start_soon(getattr(takers, way), way)
            await until(lambda: source._holdings is not None and source._holdings.waiters == 2)
            cluster.topics["t"].append(*(b"%d" % number for number in range(6)))
            await until(lambda: cluster.topics["t"].states == [ACCEPTED] * 6)
            tasks.cancel_scope.cancel()


@pytest.mark.lengthy
async def test_records_left_without_a_waiting_loop_are_released_and_not_renewed() -> None:
    cluster = filled(5)
    cluster.lock_ms = 1500  # the acceptance has to arrive before that, even on a busy machine
    async with cluster.running(), consumer(cluster, "t") as source:
        async for record in source:
            record.accept()
            break
        await until(lambda: cluster.topics["t"].states == [ACCEPTED] + 4 * [AVAILABLE])


@pytest.mark.lengthy
async def test_records_a_loop_has_not_reached_yet_are_renewed() -> None:
    cluster = filled(3)
    cluster.lock_ms = 1500
    async with cluster.running(), consumer(cluster, "t") as source:
        async for record in source:
            if record.offset == 0:
                await until(lambda: len(renewals(cluster)) >= 2)
                assert cluster.topics["t"].states == 3 * [ACQUIRED]
            if record.offset == 2:
                break
    assert cluster.topics["t"].states[:2] == 2 * [ACCEPTED]


def renewals(cluster: TinyCluster) -> list[object]:
    return [one for _, one in cluster.requests if getattr(one, "is_renew_ack", False)]


@pytest.mark.lengthy
async def test_busy_loop_later_gets_what_another_left() -> None:
    """When the other left them, this loop was busy and didn't wait."""
    async with filled(10).running() as cluster, consumer(cluster, "t") as source:
        got = []
        async for record in source:
            got.append(record.offset)
            if record.offset == 0:
                await leave_by_break(source)
            if len(got) == 10:
                record.accept()
                break
        assert sorted(got) == list(range(10))
        await source.commit()
        assert cluster.topics["t"].states == [ACCEPTED] * 10


async def test_rest_of_a_partly_read_batch_is_settled_separately() -> None:
    async with (
        filled(6).running() as cluster,
        consumer(cluster, "t", acknowledgement="explicit") as source,
    ):
        records = aiter(source)
        first, second = await anext(records), await anext(records)
        with anyio.fail_after(DEADLINE_S):
            rest = await source.next_batch()
        assert [record.offset for record in rest] == [2, 3, 4, 5]
        assert (len(rest), rest.values()) == (4, [b"2", b"3", b"4", b"5"])
        rest.accept()
        assert await source.commit() == {("t", 0): None}
        assert cluster.topics["t"].states == [ACQUIRED] * 2 + [ACCEPTED] * 4
        first.accept()
        second.reject()


async def test_sharing_an_iterator_between_tasks_accepts_no_record_in_use() -> None:
    async with filled(4).running() as cluster, consumer(cluster, "t") as source:
        records = aiter(source)
        refused: list[KshareError] = []

        async def worker() -> None:
            try:
                async for _ in records:
                    await anyio.sleep(DEADLINE_S)
            except KshareError as error:
                refused.append(error)

        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(worker)
                await until(lambda: ACQUIRED in cluster.topics["t"].states and not source._holdings.waiters)  # type: ignore[union-attr]
                tasks.start_soon(worker)
                await until(lambda: bool(refused))
                tasks.cancel_scope.cancel()
        assert "async for record in consumer" in str(refused[0])
        assert "t[0]@0" in str(refused[0])
        await source.commit()
        assert ACCEPTED not in cluster.topics["t"].states
        # Explicitly settled, records may be passed between tasks.
        others = aiter(source)
        for _ in range(3):
            async with anyio.create_task_group() as tasks:

                async def one() -> None:
                    (await anext(others)).accept()

                tasks.start_soon(one)
        await source.commit()
        assert cluster.topics["t"].states.count(ACCEPTED) == 3


async def test_changed_max_records_applies_to_later_fetches() -> None:
    async with filled(0).running() as cluster, consumer(cluster, "t", max_records=100) as source:
        refused: list[Any] = [0, 1_000_001, "3", True]
        for wrong in refused:
            with pytest.raises(
                ConfigError, match=r"max_records must be (between 1 and 1000000|an integer), not"
            ):
                source.set_max_records(wrong)
        with anyio.move_on_after(0.01):
            await source.next_batch()  # from now on, it fetches
        await until(lambda: bool(cluster.asked(ShareFetchRequest)))
        source.set_max_records(3)
        before = len(cluster.asked(ShareFetchRequest))
        cluster.topics["t"].append(*(b"%d" % number for number in range(120)))
        seen = 0
        with anyio.fail_after(DEADLINE_S):
            async for record in source:
                seen += 1
                if seen == 120:
                    record.accept()
                    break
        asked = [request.max_records for request in cluster.asked(ShareFetchRequest)[before:]]
        assert max(asked) == 3


@pytest.mark.lengthy
@pytest.mark.parametrize("seed", range(3))
async def test_what_a_random_user_has_finished_is_accepted_and_nothing_else(seed: int) -> None:
    with Broker(topics={"t": 2}) as broker:
        broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
        partitions = itertools.cycle((0, 1))

        def produce(values: list[bytes]) -> None:
            broker.produce("t", values, partition=next(partitions))

        with anyio.fail_after(DEADLINE_S):
            await check_async(broker.bootstrap, "t", "g", produce, seed, steps=100)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_tasks_with_the_same_context_must_not_share_an_iterator_either() -> None:
    """Compiled, a task was recognised by its context."""
    context = contextvars.copy_context()

    async def take(records: Any) -> ShareRecord:
        taken: ShareRecord = await anext(records)
        return taken

    async with filled(3).running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t") as source:
                records = aiter(source)
                first = await asyncio.create_task(take(records), context=context)
                with pytest.raises(KshareError, match="shared by several tasks"):
                    await asyncio.create_task(take(records), context=context)
                first.accept()
                assert (await asyncio.create_task(take(records), context=context)).offset == 1
        assert cluster.topics["t"].states == [ACCEPTED, AVAILABLE, AVAILABLE]
