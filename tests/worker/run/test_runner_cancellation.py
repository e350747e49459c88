"""A handler that is cancelled never accepts its record, and isn't counted as failed: wherever it is cancelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint

from kshare.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from kshare.testing import Broker
from kshare.worker import Delivery, Worker
from tests.helpers.consuming import until

pytestmark = [pytest.mark.anyio, pytest.mark.lengthy]

STEPS = 6


async def steps(at: Callable[[int], Awaitable[None]]) -> None:
    """A handler with awaits of several kinds."""
    await at(0)
    await checkpoint()
    await at(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(checkpoint)
        await at(2)
    await at(3)
    with anyio.move_on_after(5):
        await checkpoint()
        await at(4)
    await anyio.to_thread.run_sync(int)
    await at(5)


@pytest.fixture
def filled(kshare_broker: Broker) -> Broker:
    broker = kshare_broker
    broker.create_topic("t")
    broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    broker.produce("t", [b"%d" % number for number in range(3)])
    return broker


@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("step", range(STEPS))
@pytest.mark.parametrize("how", ["time limit", "drain", "outside"])
async def test_cancelled_at_any_await(filled: Broker, how: str, step: int, swallows: bool) -> None:
    """With `swallows`, the handler returns normally although it was cancelled."""
    worker = Worker(
        filled.bootstrap,
        group="g",
        concurrency=1,
        time_limit=0.1 if how == "time limit" else 60.0,
        drain_timeout=0.05,
    )
    started: list[bytes] = []
    finished: Counter[bytes] = Counter()

    async def wait_at(number: int) -> None:
        if number == step and len(started) == 1:
            await anyio.sleep_forever()

    @worker.handler("t")
    async def process(value: bytes) -> None:
        started.append(value)
        try:
            await steps(wait_at)
        except BaseException:
            if not swallows:
                raise
        else:
            finished[value] += 1

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        [runner] = worker.runners
        if how == "time limit":
            await until(lambda: sum(finished.values()) == 3)
            worker.stop()
        else:
            await until(lambda: bool(started) and runner.running == 1)
            await anyio.sleep(0.02)
            if how == "drain":
                worker.stop()
            else:
                tasks.cancel_scope.cancel()
    assert runner.counts.failed == 0
    assert runner.counts.cancelled <= 1
    if how != "time limit":
        assert runner.counts.done == 0
        worker.drain_timeout = 5.0
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            await until(lambda: sum(finished.values()) == 3)
            worker.stop()
    assert finished == {b"0": 1, b"1": 1, b"2": 1}


async def test_handler_that_raises_when_cancelled_has_not_failed(filled: Broker) -> None:
    worker = Worker(filled.bootstrap, group="g", time_limit=0.1)
    attempts: list[tuple[int, int]] = []

    @worker.handler("t")
    async def process(number: int, delivery: Delivery) -> None:
        attempts.append((number, delivery.delivery_count))
        assert delivery.attempt == 1
        if delivery.delivery_count == 1:
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("cleaning up failed")

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        [runner] = worker.runners
        await until(lambda: runner.counts.done == 3)
        worker.stop()
    assert (runner.counts.failed, runner.counts.cancelled, runner.counts.released) == (0, 3, 3)
    assert sorted(attempts) == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]


async def test_lost_lock_cancels_the_handler_and_its_result_is_not_acknowledged(filled: Broker) -> None:
    filled.set_group_config("g", {"share.record.lock.duration.ms": "1000"})
    worker = Worker(filled.bootstrap, group="g", concurrency=1, request_timeout=1.0)
    seen: list[tuple[bytes, int]] = []
    cancelled = 0

    @worker.handler("t")
    async def process(value: bytes, delivery: Delivery) -> None:
        nonlocal cancelled
        seen.append((value, delivery.delivery_count))
        if len(seen) == 1:
            filled.faults.add(ShareFetchRequest, times=None, swallow=True)
            filled.faults.add(ShareAcknowledgeRequest, times=None, swallow=True)
            try:
                await anyio.sleep_forever()
            except BaseException:
                cancelled += 1
                filled.faults.stop()
                raise

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        [runner] = worker.runners
        await until(lambda: runner.counts.done == 3)
        worker.stop()
    assert cancelled == 1
    assert runner.counts.failed == 0
    assert runner.counts.lost >= 1
    assert (b"0", 2) in seen
