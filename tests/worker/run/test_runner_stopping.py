"""A worker that is stopped ends in bounded time, even if copies of its records can't be written."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest
from kshare.testing import Broker
from kshare.worker import Deliveries, Delivery, Retry, RetryTopics, Worker
from tests.helpers.running_worker import from_the_start, until

pytestmark = [pytest.mark.anyio, pytest.mark.lengthy]

RECORDS = 40
SOON_S = 12.0
"""Writing the copies one after another would take many minutes."""


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    from_the_start(kshare_broker)
    for topic in ("t", "dead", "t.retry.10m"):
        kshare_broker.create_topic(topic)
    return kshare_broker


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.worker.run.draining.LAST_WRITES_S", 1.0)
    monkeypatch.setattr("kshare.worker.run.draining._CANCEL_GRACE_S", 1.0)


async def serve_and_stop(
    worker: Worker, is_ready: Callable[[], bool], within: float, *, stops: int = 1
) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            await until(is_ready)
            with anyio.CancelScope(shield=True), anyio.fail_after(within):
                for _ in range(stops):
                    worker.stop()
                    await anyio.sleep(0.3)
                while worker.health().state != "stopped":
                    await anyio.sleep(0.01)


@pytest.mark.parametrize("stops", [1, 2])
async def test_held_records_whose_copies_cannot_be_written(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, stops: int
) -> None:
    monkeypatch.setattr("kshare.worker.run.draining._CANCEL_GRACE_S", 1.0)
    if stops == 1:
        monkeypatch.setattr("kshare.worker.run.draining.LAST_WRITES_S", 1.0)
    broker.produce("t", [b"%d" % number for number in range(RECORDS)])
    worker = Worker(
        broker.bootstrap,
        group="g",
        retry=Retry(delay=60.0),
        retry_topics=RetryTopics(tiers=(600.0,)),
        hold_up_to=120.0,
        breaker=None,
        drain_timeout=0.5,
    )

    @worker.handler("t")
    async def fail(value: bytes) -> None:
        raise ValueError

    def is_ready() -> bool:
        if worker.runners[0].queue.held < RECORDS:
            return False
        broker.faults.add(ProduceRequest, times=None, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        return True

    await serve_and_stop(worker, is_ready, SOON_S if stops == 1 else 5.0, stops=stops)


async def test_rejected_records_of_a_batch_whose_copies_cannot_be_written(
    broker: Broker, quick: None
) -> None:
    broker.faults.add(ProduceRequest, times=None, error=ErrorCode.NOT_ENOUGH_REPLICAS)
    broker.produce("t", [b"%d" % number for number in range(RECORDS)])
    worker = Worker(broker.bootstrap, group="g", dead_letters="dead", drain_timeout=0.5)
    calls: list[int] = []

    @worker.batch_handler("t", batch_size=RECORDS)
    async def reject(deliveries: Deliveries) -> None:
        calls.append(len(deliveries))
        deliveries.reject_all()

    await serve_and_stop(worker, lambda: bool(calls), SOON_S)


async def test_many_held_records_are_moved_at_the_end(broker: Broker) -> None:
    count = 1500
    broker.produce("t", [b"%d" % number for number in range(count)])
    worker = Worker(
        broker.bootstrap,
        group="g",
        retry=Retry(delay=60.0),
        retry_topics=RetryTopics(tiers=(600.0,)),
        hold_up_to=120.0,
        max_pinned=1.0,
        breaker=None,
    )

    @worker.handler("t")
    async def fail(value: bytes) -> None:
        raise ValueError

    await serve_and_stop(worker, lambda: worker.runners[0].queue.held == count, SOON_S)
    assert {record.value for record in broker.records("t.retry.10m")} == {b"%d" % n for n in range(count)}


async def test_restarts_while_dead_letters_cannot_be_written_use_one_delivery_each(
    broker: Broker, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    """And the handler isn't called again as long as the worker runs. What is archived in the end is logged."""
    broker.faults.add(ProduceRequest, times=None, error=ErrorCode.POLICY_VIOLATION)
    broker.produce("t", [b"precious"])
    calls: list[int] = []
    lost = 0
    for delivery_count in range(1, 6):
        worker = Worker(
            broker.bootstrap, group="g", retry=Retry(attempts=1), dead_letters="dead", drain_timeout=0.1
        )

        @worker.handler("t")
        async def fail(value: bytes, delivery: Delivery) -> None:
            calls.append(delivery.delivery_count)
            raise ValueError

        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            [runner] = worker.runners
            # Tried twice at least
            await until(lambda runner=runner: runner.queue.held == 1)  # type: ignore[misc]
            await anyio.sleep(1.2)
            await until(lambda runner=runner: runner.queue.held == 1)  # type: ignore[misc]
            assert runner.counts.lost == 0
            worker.stop()
        lost = runner.counts.lost
        assert lost == (delivery_count == 5)
    assert calls == [1, 2, 3]  # from the fourth delivery on, it is given up without another call
    [line] = [record for record in caplog.records if "archived by the broker" in record.getMessage()]
    assert (line.levelno, "t[0] (offset 0)" in line.getMessage()) == (logging.ERROR, True)


async def test_calls_that_are_cancelled_at_the_end_are_logged(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.produce("t", [b"1", b"2", b"3"])
    worker = Worker(broker.bootstrap, group="g", drain_timeout=0.05)
    started: list[bytes] = []

    @worker.handler("t", concurrency=3)
    async def never_ends(value: bytes) -> None:
        started.append(value)
        await anyio.sleep_forever()

    await serve_and_stop(worker, lambda: len(started) == 3, SOON_S)
    [line] = [message for message in caplog.messages if "before its calls had ended" in message]
    assert "3 calls cancelled, and the records released" in line


async def test_calls_that_a_second_stop_cancels_are_logged_too(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.produce("t", [b"1", b"2", b"3"])
    worker = Worker(broker.bootstrap, group="g", drain_timeout=60)
    started: list[bytes] = []

    @worker.handler("t", concurrency=3)
    async def never_ends(value: bytes) -> None:
        started.append(value)
        await anyio.sleep_forever()

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            await until(lambda: len(started) == 3)
            worker.stop()
            await anyio.sleep(0.1)
            worker.stop()
    [line] = [message for message in caplog.messages if "before its calls had ended" in message]
    assert "(it was told to stop again): 3 calls cancelled, and the records released" in line


async def test_a_batch_that_is_being_settled_at_the_end_keeps_its_attempts(broker: Broker) -> None:
    """One of its records is held, while the copy of another one can't be written yet. The time for handlers ends."""
    writes = broker.faults.add(ProduceRequest, times=None, error=ErrorCode.NOT_ENOUGH_REPLICAS)
    broker.produce("t", [b"later", b"failed"])
    worker = Worker(
        broker.bootstrap,
        group="g",
        retry=Retry(attempts=5, delay=20.0),
        retry_topics=RetryTopics(tiers=(600.0,)),
        hold_up_to=30.0,
        breaker=None,
        drain_timeout=0.1,
    )

    @worker.batch_handler("t", batch_size=2, batch_wait=5.0)
    async def fail(deliveries: Deliveries) -> None:
        deliveries[0].release(delay=600)
        raise ValueError

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            [runner] = worker.runners
            await until(lambda: runner.counts.held == 1)
            worker.stop()
            await anyio.sleep(0.4)  # longer than drain_timeout
            writes.stop()
    attempts = {
        record.value: dict(record.headers)["__kshare.retry.attempts"]
        for record in broker.records("t.retry.10m")
    }
    assert attempts == {b"later": b"0", b"failed": b"1"}
    assert len(broker.records("t.retry.10m")) == 2
    assert runner.counts.cancelled == 0


async def test_a_lower_priority_finishes_what_it_has_after_a_higher_one(broker: Broker) -> None:
    """Stopping while the higher one is busy: what the lower one has acquired isn't released at once."""
    broker.create_topic("urgent")
    worker = Worker(broker.bootstrap, group="g", concurrency=1, drain_timeout=30.0)
    is_over = anyio.Event()
    urgent: list[bytes] = []
    done: list[bytes] = []

    @worker.handler("urgent", priority=1)
    async def first(value: bytes) -> None:
        urgent.append(value)
        await is_over.wait()

    @worker.handler("t")
    async def second(value: bytes) -> None:
        done.append(value)

    broker.produce("urgent", [b"1", b"2", b"3"])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            high, low = worker.runners
            await until(lambda: bool(urgent) and high.queue.has_ready)
            broker.produce("t", [b"4", b"5", b"6"])
            await until(lambda: low.queue.has_ready)
            worker.stop()
            await anyio.sleep(0.3)
            assert low.counts.released == 0
            is_over.set()
    assert done == [b"4", b"5", b"6"][: len(done)]
    assert done
    assert (high.counts.released, low.counts.released) == (0, 0)
