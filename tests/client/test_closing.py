"""Closing a consumer: from any task, twice, with errors, with hanging brokers; and what waiting tasks get."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kshare import AcknowledgeError, ConsumerClosed, KshareError, ShareConsumer
from kshare.engine.events import Acknowledged
from kshare.engine.node_session import NodeSession
from kshare.protocol.messages import ShareFetchRequest, ShareGroupHeartbeatRequest
from tests.fakes.tiny_cluster import ACCEPTED, AVAILABLE, TinyCluster, _Node
from tests.helpers.consuming import DEADLINE_S, consumer, next_of, until

pytestmark = pytest.mark.anyio


def has_left(cluster: TinyCluster) -> bool:
    return bool(cluster.asked(ShareGroupHeartbeatRequest)[-1].member_epoch == -1)


async def loop(source: ShareConsumer) -> None:
    async for _ in source:
        pass


async def loop_over_batches(source: ShareConsumer) -> None:
    async for _ in source.batches():
        pass


async def ask_for_a_batch(source: ShareConsumer) -> None:
    await source.next_batch()


async def go_on_with_an_iterator(source: ShareConsumer) -> None:
    await anext(aiter(source))


WAITERS = [loop, loop_over_batches, ask_for_a_batch, go_on_with_an_iterator]
Waiter = Callable[[ShareConsumer], Awaitable[None]]


@pytest.mark.lengthy
@pytest.mark.parametrize("wait", WAITERS)
async def test_waiting_tasks_get_consumer_closed(wait: Waiter) -> None:
    told: list[BaseException] = []

    async def waiter(source: ShareConsumer) -> None:
        with pytest.raises(match="group 'g' was closed") as error:
            await wait(source)
        told.append(error.value)

    async with TinyCluster("t").running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks, consumer(cluster, "t") as source:
                tasks.start_soon(waiter, source)
                await until(lambda: source._holdings is not None and source._holdings.waiters == 1)
            assert len(told) == 1
            with pytest.raises(ConsumerClosed):
                await wait(source)
        with pytest.raises(ConsumerClosed):
            await source.commit()
        with pytest.raises(ConsumerClosed):
            source.subscribe(["t"])


@pytest.mark.lengthy
async def test_waiting_commit_ends_when_the_consumer_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with TinyCluster("t").running() as cluster:
        cluster.topics["t"].append(b"0")
        ended: list[object] = []

        async def commit(source: ShareConsumer) -> None:
            try:
                ended.append(await source.commit())
            except KshareError as error:
                ended.append(error)

        options: dict[str, Any] = {"acknowledgement": "explicit", "close_timeout": 0.5}
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks, consumer(cluster, "t", **options) as source:
                record = await next_of(source)
                cluster.is_silent = True
                before = len(cluster.asked(ShareFetchRequest))
                await until(lambda: len(cluster.asked(ShareFetchRequest)) > before)
                record.accept()
                tasks.start_soon(commit, source)
                await anyio.lowlevel.checkpoint()
        assert len(ended) == 1
        assert has_left(cluster)
    (late,) = [message for message in caplog.messages if "close_timeout" in message]
    assert late.startswith("group g: left, but a broker didn't respond within close_timeout (0.5 s)")


@pytest.mark.lengthy
async def test_a_group_that_could_not_be_left_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with TinyCluster("t").running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", close_timeout=0.5):
                await until(lambda: len(cluster.asked(ShareGroupHeartbeatRequest)) > 1)
                cluster.frozen.add(1)
        assert not has_left(cluster)
    (late,) = [message for message in caplog.messages if "close_timeout" in message]
    assert late.startswith("group g: leaving took longer than close_timeout (0.5 s); the broker will notice")


async def test_any_task_may_close_and_the_block_ends_normally() -> None:
    async with TinyCluster("t").running() as cluster:
        cluster.topics["t"].append(b"0", b"1")
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t") as source:
                (await next_of(source)).accept()
                async with anyio.create_task_group() as tasks:
                    for _ in range(3):
                        tasks.start_soon(source.close)
                assert has_left(cluster)
                await source.close()
            assert cluster.topics["t"].states == [ACCEPTED, AVAILABLE]
        assert (
            len(
                [
                    heartbeat
                    for heartbeat in cluster.asked(ShareGroupHeartbeatRequest)
                    if heartbeat.member_epoch == -1
                ]
            )
            == 1
        )


@pytest.mark.lengthy
async def wait_until_asked(source: ShareConsumer, is_asked: Callable[[], bool]) -> None:
    """Nothing is fetched before somebody asks for records."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.next_batch)
        await until(is_asked)
        tasks.cancel_scope.cancel()


@pytest.mark.lengthy
async def test_consumer_may_be_opened_and_closed_in_different_tasks() -> None:
    """As fixtures and exit stacks do."""
    async with TinyCluster("t").running() as cluster:
        source = consumer(cluster, "t")

        async def leave() -> None:
            await source.__aexit__(None, None, None)

        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(source.__aenter__)
            await wait_until_asked(source, lambda: bool(cluster.asked(ShareFetchRequest)))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
        assert has_left(cluster)


async def test_record_in_hand_is_released_when_its_loop_closes_the_consumer() -> None:
    async with TinyCluster("t").running() as cluster:
        cluster.topics["t"].append(b"0", b"1", b"2")
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t") as source:
                records = aiter(source)
                await anext(records)
                record = await anext(records)
                await source.close()
                with pytest.raises(ConsumerClosed):
                    await anext(records)
                with pytest.raises(AcknowledgeError, match="can no longer be acknowledged"):
                    record.accept()
        assert cluster.topics["t"].states == [ACCEPTED, AVAILABLE, AVAILABLE]


async def test_closing_an_unopened_consumer_does_nothing_and_a_closed_one_can_be_reopened() -> None:
    async with TinyCluster("t").running() as cluster:
        source = consumer(cluster, "t")
        await source.close()
        cluster.topics["t"].append(b"0", b"1")
        with anyio.fail_after(DEADLINE_S):
            for expected in (0, 1):
                async with source:
                    with pytest.raises(KshareError, match="open already"):
                        await source.__aenter__()
                    record = await next_of(source)
                    assert record.offset == expected
                    record.accept()


@pytest.mark.lengthy
async def test_error_during_closing_is_raised_after_cleaning_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(self: NodeSession) -> None:
        raise LookupError("from within")

    async with TinyCluster("t", "u", nodes=2).running() as cluster:
        cluster.topics["u"].leader = 2
        with anyio.fail_after(DEADLINE_S):
            source = consumer(cluster, "t", "u")
            await source.__aenter__()
            await wait_until_asked(source, lambda: bool(cluster.asked(ShareFetchRequest, 2)))
            monkeypatch.setattr(NodeSession, "close", fail)
            with pytest.raises(LookupError, match="from within"):
                await source.__aexit__(None, None, None)
            assert has_left(cluster)
            await source.close()
            # Nothing is left: every connection was closed.
            await until(lambda: cluster.open_connections == 0)


@pytest.mark.lengthy
async def test_error_during_closing_does_not_replace_the_users_exception(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(self: NodeSession) -> None:
        raise LookupError("from within")

    async with TinyCluster("t").running() as cluster:

        async def use() -> None:
            async with consumer(cluster, "t") as source:
                await wait_until_asked(source, lambda: bool(cluster.asked(ShareFetchRequest)))
                monkeypatch.setattr(NodeSession, "close", fail)
                raise KeyError("the user's")

        with anyio.fail_after(DEADLINE_S), pytest.raises(KeyError, match="the user's"):
            await use()
        assert has_left(cluster)


async def test_background_error_is_raised_in_waiting_tasks_and_closing_still_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(self: NodeSession) -> None:
        raise LookupError("from within")

    monkeypatch.setattr(NodeSession, "run", fail)
    async with TinyCluster("t").running() as cluster:
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t") as source:
                with pytest.raises(LookupError, match="from within"):
                    await source.next_batch()
        assert has_left(cluster)


@pytest.mark.lengthy
async def test_group_is_left_although_a_broker_hangs() -> None:
    async with TinyCluster("t", "u", nodes=2).running() as cluster:
        cluster.topics["u"].leader = 2
        cluster.topics["t"].append(b"0")
        outcomes: list[Acknowledged] = []
        options: Any = {"acknowledgement": "explicit", "close_timeout": 0.6, "on_settled": outcomes.append}
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", "u", **options) as source:
                record = await next_of(source)
                before = len(cluster.asked(ShareFetchRequest, 1))
                cluster.is_silent = True
                await until(lambda: len(cluster.asked(ShareFetchRequest, 1)) > before)
                record.accept()
        assert has_left(cluster)
        assert [(outcome.error is not None, list(outcome.ranges())) for outcome in outcomes] == [
            (True, [(0, 0, "accept")])
        ]


async def test_one_stale_acknowledgement_does_not_affect_others_of_its_partition() -> None:
    async with TinyCluster("t").running() as cluster:
        topic = cluster.topics["t"]
        topic.append(*(b"%d" % number for number in range(16)))
        with anyio.fail_after(DEADLINE_S):
            async with consumer(cluster, "t", acknowledgement="explicit") as source:
                batch = await source.next_batch()
                assert len(batch) == 16
                cluster.take_away("t", 5)
                batch.accept()
        assert [offset for offset, state in enumerate(topic.states) if state != ACCEPTED] == [5]


@pytest.mark.lengthy
async def test_consumer_is_closed_even_if_closing_is_cancelled() -> None:
    async with TinyCluster("t").running() as cluster:
        cluster.topics["t"].append(*(b"%d" % number for number in range(20)))
        with anyio.fail_after(DEADLINE_S):
            for turns in range(0, 20, 2):
                with anyio.CancelScope() as scope:
                    async with consumer(cluster, "t") as source:
                        (await next_of(source)).accept()
                        async with anyio.create_task_group() as tasks:

                            async def cancel(turns: int = turns, scope: anyio.CancelScope = scope) -> None:
                                for _ in range(turns):
                                    await anyio.lowlevel.checkpoint()
                                scope.cancel()

                            tasks.start_soon(cancel)
                            tasks.start_soon(source.close)
                assert has_left(cluster)
                assert source._background is not None
                assert source._background.is_over
        gc.collect()


@pytest.mark.lengthy
async def test_nothing_is_left_when_opening_is_cancelled() -> None:
    async with TinyCluster("t").running() as cluster:
        for turns in range(25):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:

                    async def cancel(turns: int = turns, scope: anyio.CancelScope = scope) -> None:
                        for _ in range(turns):
                            await anyio.lowlevel.checkpoint()
                        scope.cancel()

                    tasks.start_soon(cancel)
                    source = consumer(cluster, "t")
                    await source.__aenter__()
                    await anyio.sleep(DEADLINE_S)
            with anyio.fail_after(DEADLINE_S):
                await source.close()
            assert source._background is None or source._background.is_over
        await until(lambda: cluster.open_connections == 0)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_opening_ends_when_its_task_and_the_background_task_are_cancelled() -> None:
    """As programs do that shut down, here before the consumer's own task has begun."""
    async with TinyCluster("t").running() as cluster:
        opening = asyncio.create_task(consumer(cluster, "t").__aenter__())
        await asyncio.sleep(0)
        (background,) = (task for task in asyncio.all_tasks() if task.get_name() == "kshare consumer")
        background.cancel()
        opening.cancel()
        done, _ = await asyncio.wait([opening], timeout=DEADLINE_S)
        assert done == {opening}
        assert opening.cancelled()


async def test_opening_ends_when_the_consumer_is_closed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async def say_nothing(*_: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(_Node, "_response", say_nothing)
    async with TinyCluster("t").running() as cluster:
        source = consumer(cluster, "t")

        async def open_it() -> None:
            with pytest.raises(match="while it was being opened"):
                await source.__aenter__()

        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(open_it)
                await until(lambda: bool(cluster.requests))
                await source.close()
