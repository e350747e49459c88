"""A handler that takes long doesn't keep the others from their records, and its own isn't lost or processed twice."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import anyio
import pytest

from kshare import AdminClient, Producer, ShareConsumer
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest
from kshare.testing import Broker
from kshare.worker import Delivery, Retry, RetryTopics, Worker
from kshare.worker.records.headers import RetryContext
from kshare.worker.run import group_limits
from kshare.worker.settle import moved_runs
from tests.helpers.consuming import until

pytestmark = [pytest.mark.anyio, pytest.mark.lengthy]

TIERS = RetryTopics(tiers=(1.0,))


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """With a small in-flight window, and copies that are soon due."""
    monkeypatch.setattr(moved_runs, "SHORTEST_S", 1.0)
    kshare_broker.create_topic("t")
    kshare_broker.create_topic("dead")
    kshare_broker.set_group_config(
        "g", {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": "200"}
    )
    return kshare_broker


def worker_of(broker: Broker, **options: object) -> Worker:
    return Worker(
        broker.bootstrap,
        **{
            "group": "g",
            "retry_topics": TIERS,
            "move_runs": True,
            "max_pinned": 0.3,
            "breaker": None,
            **options,
        },  # type: ignore[arg-type]
    )


async def lag(broker: Broker, group: str) -> int:
    async with AdminClient(broker.bootstrap) as admin:
        return sum(progress.lag or 0 for progress in await admin.share_group_progress(group))


async def nothing_is_left(broker: Broker, *groups: str) -> None:
    with anyio.fail_after(20):
        while [group for group in groups if await lag(broker, group)]:
            await anyio.sleep(0.05)


@pytest.mark.parametrize("ends", ["returns", "raises", "raises for ever", "rejects", "is cancelled"])
async def test_others_go_on_and_the_run_ends_as_its_policy_says(broker: Broker, ends: str) -> None:
    limit = 10.0 if ends == "is cancelled" else 60.0  # until then, everything else must be done
    worker = worker_of(broker, retry=Retry(attempts=2, delay=0.1), dead_letters="dead", time_limit=limit)
    attempts: list[int] = []
    others: Counter[bytes] = Counter()
    go_on = anyio.Event()

    @worker.handler("t")
    async def process(value: bytes, delivery: Delivery) -> None:
        if value != b"long":
            others[value] += 1
            return
        assert delivery.moved_to is None
        attempts.append(delivery.attempt)
        if len(attempts) > 1 and ends != "raises for ever":
            return
        if len(attempts) == 1:
            await go_on.wait()
        if ends.startswith("raises"):
            raise ValueError
        if ends == "rejects":
            delivery.reject("no")
        if ends == "is cancelled":
            await anyio.sleep_forever()

    broker.produce("t", [b"long"])
    broker.produce("t", [b"%d" % number for number in range(1000)])
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        [runner] = worker.runners
        await until(lambda: len(others) == 1000)
        assert len(attempts) == runner.counts.moved == 1
        await nothing_is_left(broker, "g")
        await anyio.sleep(1.5)  # the first copies are due, and out of date
        assert len(attempts) == 1
        go_on.set()
        await until(lambda: runner.counts.done + runner.counts.dead == 1001)
        await nothing_is_left(broker, "g", "g.retry")
        worker.stop()
    assert (
        attempts
        == {
            "returns": [1],
            "raises": [1, 2],
            "raises for ever": [1, 2],
            "rejects": [1],
            "is cancelled": [1, 1],
        }[ends]
    )
    assert len(broker.records("dead")) == (ends in ("rejects", "raises for ever"))
    assert set(others.values()) == {1}


async def test_copy_of_a_worker_that_died_is_processed(broker: Broker) -> None:
    worker = worker_of(broker)
    seen: list[tuple[bytes, int, str, int]] = []

    @worker.handler("t")
    async def process(value: bytes, delivery: Delivery) -> None:
        seen.append((value, delivery.attempt, delivery.topic, delivery.offset))

    def copy(run: str, due_in: float = 0.0, *, is_over: bool = False) -> RetryContext:
        return RetryContext(
            topic="t",
            partition=0,
            offset=7,
            group="g",
            timestamp=0,
            attempts=1,
            due_ms=int((time.time() + due_in) * 1000),
            run=run,
            is_over=is_over,
        )

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        async with Producer(broker.bootstrap) as producer:
            for value, context in (
                (b"died", copy("a")),
                (b"alive", copy("b", 0.5)),
                (b"alive", copy("b", 1.0)),
                (b"over", copy("c", 0.5)),
                (None, copy("b", is_over=True)),
                (None, copy("c", is_over=True)),
            ):
                await producer.send("t.retry.1s", value, headers=context.headers())
        await until(lambda: bool(seen))
        await nothing_is_left(broker, "g", "g.retry")
        worker.stop()
    assert seen == [(b"died", 2, "t", 7)]


async def test_what_becomes_a_copy_before_its_call_is_not_moved_as_well(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise there are two copies of it, and one of them is written again and again, though nothing runs."""
    monkeypatch.setattr(group_limits, "LOOK_FOR_LIMITS_S", 0.05)
    worker = worker_of(broker, concurrency=1)
    finished: list[bytes] = []
    go_on = anyio.Event()

    @worker.handler("t")
    async def process(value: bytes) -> None:
        if value == b"blocks":
            await go_on.wait()
        finished.append(value)

    broker.produce("t", [b"waits"])
    async with (
        ShareConsumer(broker.bootstrap, group="g", topics=["t"], max_records=1) as consumer,
        anyio.create_task_group() as tasks,
    ):
        record = await anext(aiter(consumer))
        consumer.pause()
        broker.produce("t", [*(b"%d" % number for number in range(190)), b"blocks"])  # more than max_pinned
        await tasks.start(worker.serve)
        await until(lambda: len(finished) == 190)
        record.release()
        await anyio.sleep(0.5)  # until the worker has it
        broker.set_group_config(
            "g", {"share.delivery.count.limit": "3"}
        )  # so it is moved at its second delivery
        await until(lambda: "its limits have changed" in caplog.text)
        broker.faults.add(ProduceRequest, after_ms=1000)
        go_on.set()
        await until(lambda: finished[-1] == b"waits")
        await nothing_is_left(broker, "g", "g.retry")
        worker.stop()
    assert [copy.value for copy in broker.records("t.retry.1s")] == [b"waits"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio has no cancellation that a handler could raise
@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_a_run_that_ends_while_it_is_being_moved(broker: Broker, error: type[BaseException]) -> None:
    worker = worker_of(broker, retry=Retry(attempts=2, delay=0.1))
    attempts: list[int] = []
    copying = broker.faults.add(ProduceRequest, after_ms=500)

    @worker.handler("t")
    async def process(value: bytes, delivery: Delivery) -> None:
        if value == b"long":
            attempts.append(delivery.attempt)
            if len(attempts) == 1:
                await until(lambda: copying.hits > 0)
                raise error

    broker.produce("t", [b"long", *(b"%d" % number for number in range(190))])
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: len(attempts) == 2)
        await nothing_is_left(broker, "g", "g.retry")
        worker.stop()
    assert len(attempts) == 2


async def test_run_is_not_moved_if_the_copy_cannot_be_written(broker: Broker) -> None:
    """It goes on as before, and is accepted at its end."""
    worker = worker_of(broker)
    release = anyio.Event()
    finished: list[bytes] = []

    @worker.handler("t")
    async def process(value: bytes) -> None:
        if value == b"long":
            await release.wait()
        finished.append(value)

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        broker.faults.add(ProduceRequest, times=None, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        broker.produce("t", [b"long", *(b"%d" % number for number in range(300))])
        [runner] = worker.runners
        await until(lambda: len(finished) >= 190)
        await anyio.sleep(0.3)
        assert runner.counts.moved == 0
        release.set()
        await until(lambda: len(finished) == 301)
        worker.stop()
    assert len(set(finished)) == 301
