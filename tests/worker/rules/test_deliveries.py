"""Records that were often delivered without a result are moved before their last delivery, and become due apart."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare import ShareConsumer
from kshare.testing import Broker
from kshare.worker import Delivery, Retry, RetryTopics, Worker
from kshare.worker.records.headers import read_retry_context
from kshare.worker.rules.limits import ShareLimits
from tests.helpers.consuming import DEADLINE_S, until

pytestmark = [pytest.mark.anyio]

RECORDS = 10


async def deliver(broker: Broker, times: int) -> None:
    """Deliver all records so often, without a result."""
    for _ in range(times):
        async with ShareConsumer(broker.bootstrap, group="g", topics=["t"]) as consumer:
            with anyio.fail_after(DEADLINE_S):
                batch = await consumer.next_batch()
            assert batch.delivery_count <= times
            assert len(batch) == RECORDS


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("t")
    kshare_broker.set_group_config("g", {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("t", [b"%d" % number for number in range(RECORDS)])
    return kshare_broker


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("times", "topic", "attempt"), [(1, "t", 1), (2, "t.retry.1s", 2)], ids=["second delivery", "third"]
)
async def test_a_record_is_moved_before_its_last_delivery(
    broker: Broker, times: int, topic: str, attempt: int
) -> None:
    await deliver(broker, times)
    worker = Worker(broker.bootstrap, group="g", retry_topics=RetryTopics(tiers=(1.0,)))
    seen: list[tuple[str, int]] = []

    @worker.handler("t")
    async def process(value: bytes, delivery: Delivery) -> None:
        seen.append((delivery.record.topic, delivery.attempt))

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: len(seen) == RECORDS)
        worker.stop()
    assert seen == [(topic, attempt)] * RECORDS


@pytest.mark.lengthy
async def test_records_that_were_moved_together_become_due_one_by_one(broker: Broker) -> None:
    await deliver(broker, 2)
    worker = Worker(broker.bootstrap, group="g", retry_topics=RetryTopics(tiers=(600.0,)))

    @worker.handler("t")
    async def process(value: bytes) -> None:
        pass

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: worker.runners[0].counts.moved == RECORDS)
        worker.stop()
    contexts = [read_retry_context(record.headers) for record in broker.records("t.retry.10m")]
    # A copy that was acquired before the worker stopped is copied again.
    first_dues = {context.offset: context.due_ms for context in reversed(contexts) if context is not None}
    dues = sorted(first_dues.values())
    assert len({*dues}) == RECORDS
    assert dues[-1] - dues[0] > 60_000


@pytest.mark.lengthy
async def test_all_of_a_huge_batch_is_moved(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.worker.functions.concurrently._AT_ONCE", 4)
    await deliver(broker, 2)
    worker = Worker(broker.bootstrap, group="g", retry_topics=RetryTopics(tiers=(600.0,)))

    @worker.handler("t")
    async def process(value: bytes) -> None:
        pass

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: worker.runners[0].counts.moved == RECORDS)
        worker.stop()
    contexts = [read_retry_context(record.headers) for record in broker.records("t.retry.10m")]
    assert {context.offset for context in contexts if context is not None} == {*range(RECORDS)}


@pytest.mark.parametrize(("limit", "delivery"), [(2, 2), (3, 2), (5, 3), (10, 5)])
def test_last_safe_delivery(limit: int, delivery: int) -> None:
    assert ShareLimits(deliveries=limit).last_safe_delivery == delivery


@pytest.mark.lengthy
async def test_copies_that_are_not_due_survive_any_number_of_deliveries(broker: Broker) -> None:
    """They lose no attempts: their deliveries ended while they were held, so nobody has processed them."""
    later = "t.retry.10m"
    worker = Worker(
        broker.bootstrap,
        group="g",
        retry=Retry(delay=600.0),
        retry_topics=RetryTopics(tiers=(600.0,)),
        breaker=None,
    )

    @worker.handler("t")
    async def process(value: bytes) -> None:
        raise ValueError

    for _ in range(ShareLimits().deliveries + 2):
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            await until(lambda: worker.runners[0].queue.copies == RECORDS)
            worker.stop()
    contexts = [read_retry_context(record.headers) for record in broker.records(later)]
    assert {(context.offset, context.attempts) for context in contexts if context is not None} == {
        (offset, 1) for offset in range(RECORDS)
    }
    assert len(contexts) > RECORDS


@pytest.mark.lengthy
async def test_copies_that_are_not_due_are_released_at_the_end_without_further_copies(broker: Broker) -> None:
    worker = Worker(
        broker.bootstrap,
        group="g",
        retry=Retry(delay=600.0),
        retry_topics=RetryTopics(tiers=(600.0,)),
        breaker=None,
    )

    @worker.handler("t")
    async def process(value: bytes) -> None:
        raise ValueError

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: worker.runners[0].queue.copies == RECORDS)
        worker.stop()
    assert len(broker.records("t.retry.10m")) == RECORDS


@pytest.mark.lengthy
async def test_records_whose_copies_end_without_a_result_too_become_dead_letters(broker: Broker) -> None:
    """The record and two copies, each delivered twice: then it is no longer chance."""
    worker = Worker(
        broker.bootstrap,
        group="g",
        retry_topics=RetryTopics(tiers=(0.05,)),
        dead_letters="dead",
        time_limit=0.2,
        concurrency=RECORDS,
        breaker=None,  # it would keep them
    )
    attempts: list[int] = []

    @worker.handler("t")
    async def process(value: bytes, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: worker.runners[0].counts.dead == RECORDS)
        worker.stop()
    assert sorted(attempts) == sorted([1, 2, 3] * 2 * RECORDS)
    messages = {dict(record.headers)["__dlq.errors.message"] for record in broker.records("dead")}
    assert messages == {b"2 deliveries ended without a result"}


@pytest.mark.lengthy
async def test_attempts_without_a_result_leave_the_policy_all_of_its_attempts(broker: Broker) -> None:
    await deliver(broker, 2)
    worker = Worker(
        broker.bootstrap,
        group="g",
        retry=Retry(attempts=3, delay=0.02),
        retry_topics=RetryTopics(tiers=(0.05,)),
        hold_up_to=0.05,
        dead_letters="dead",
        breaker=None,
    )
    calls: dict[int, list[tuple[int, bool, bool]]] = {}

    @worker.handler("t")
    async def process(delivery: Delivery) -> None:
        seen = calls.setdefault(delivery.offset, [])
        seen.append((delivery.attempt, delivery.is_last_attempt, delivery.redelivered))
        raise ValueError

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: worker.runners[0].counts.dead == RECORDS)
        worker.stop()
    # The first attempt was that of the deliveries without a result.
    expected = [(2, False, True), (3, False, True), (4, True, True)]
    assert [calls[offset] for offset in range(RECORDS)] == [expected] * RECORDS


@pytest.mark.lengthy
async def test_postponed_records_are_redelivered(broker: Broker) -> None:
    worker = Worker(broker.bootstrap, group="g")
    calls: list[bool] = []

    @worker.handler("t")
    async def process(delivery: Delivery) -> None:
        calls.append(delivery.redelivered)
        if not delivery.redelivered:
            delivery.release(delay=0.01)

    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: worker.runners[0].counts.done == RECORDS)
        worker.stop()
    assert sorted(calls) == [False] * RECORDS + [True] * RECORDS


@pytest.mark.lengthy
@pytest.mark.parametrize("stops", [False, True], ids=["time limit", "drain timeout"])
@pytest.mark.parametrize("is_batch", [False, True], ids=["record", "batch"])
async def test_dead_letters_before_a_call_are_not_limited_as_handlers_are(
    broker: Broker, *, stops: bool, is_batch: bool
) -> None:
    """The function that keeps them was cancelled again and again, until the broker archived the records."""
    broker.set_group_config("g", {"share.delivery.count.limit": "3"})
    await deliver(broker, 1)
    began: list[int] = []
    kept: list[int] = []

    async def keep(delivery: Delivery, reason: str) -> None:
        began.append(delivery.offset)
        await anyio.sleep(0.5 if stops else 3.0)  # the loop may look at long calls once a second only
        kept.append(delivery.offset)

    worker = Worker(
        broker.bootstrap,
        group="g",
        concurrency=RECORDS,
        dead_letters=keep,
        time_limit=30.0 if stops else 0.2,
        drain_timeout=0.1 if stops else 30.0,
    )

    async def process(value: Any) -> None:
        raise AssertionError("it is called for no record that is delivered for the last time but one")

    if is_batch:
        worker.batch_handler("t", batch_size=1)(process)
    else:
        worker.handler("t")(process)
    async with anyio.create_task_group() as tasks:
        await tasks.start(worker.serve)
        await until(lambda: len(began if stops else kept) >= RECORDS)
        worker.stop()
    assert sorted(kept) == sorted(began) == list(range(RECORDS))
