"""What an attack on the worker found: decisions that fail, limits that change, and locks that are lost meanwhile."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kshare.client.made_records import made_record
from kshare.client.record import lease_of
from kshare.errors import InProgress
from kshare.testing import run_worker
from kshare.worker import (
    Deliveries,
    Delivery,
    RecordOutcome,
    Retry,
    RetryTopics,
    SampleRecord,
    Worker,
)
from kshare.worker.handlers.inspection import inspect_handler
from kshare.worker.handlers.options import HandlerOptions
from kshare.worker.handlers.routes import Route
from kshare.worker.host import RunningHandler
from kshare.worker.rules.decision import ACCEPT, Decision
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.run.pipeline import Pipeline
from kshare.worker.run.slots import Slot


@pytest.mark.lengthy
def test_on_error_decides_once_for_each_run() -> None:
    """Its result can't be written, so the record fails again: that it is told again, and accepts again, ended the
    worker with a RecursionError."""
    worker = Worker(group="g", retry=Retry(attempts=2, delay=1), breaker=None)
    told: list[str] = []

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        raise ValueError

    @worker.on_error
    def keep(delivery: Delivery, error: BaseException) -> None:
        told.append(type(error).__name__)
        delivery.publish("errors", random.Random(1).randbytes(5000))
        delivery.accept()

    with run_worker(worker) as running:
        running.broker.create_topic("errors", settings={"max.message.bytes": "1000"})
        running.produce("orders", b"1")
        running.wait_until(lambda: running.counts["ship"].held == 1)
        running.advance(1.5)
        running.wait_until_settled()
        assert running.counts["ship"].dead == 1
    assert told == ["ValueError", "ValueError"]


@pytest.mark.anyio
@pytest.mark.parametrize("pause", [None, math.nan, -1, "soon"])
async def test_a_pause_that_makes_no_sense_is_a_second(pause: Any) -> None:
    worker = Worker("kafka.example:9092", group="g")

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        error = InProgress("elsewhere", retry_after=1.0)
        error.retry_after = pause
        raise error

    trial = await worker.test(b"1")
    assert (trial.outcome, trial.delay, trial.decision.rule) == ("held", 1.0, "postponed")


@pytest.mark.anyio
async def test_a_record_that_is_given_up_untried_has_had_no_attempt() -> None:
    worker = Worker("kafka.example:9092", group="g", dead_letters="dead", dead_letters_after=60)

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        raise AssertionError("it isn't called")

    trial = await worker.test(SampleRecord(timestamp=1_000))
    assert (trial.outcome, trial.attempts) == ("dead letter", 0)
    assert dict(trial.published[0].headers)["__dlq.errors.attempts"] == b"0"


@pytest.mark.anyio
async def test_a_record_without_a_time_has_no_age() -> None:
    worker = Worker("kafka.example:9092", group="g", dead_letters_after=60)

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        pass

    assert (await worker.test(SampleRecord(timestamp=-1))).outcome == "accepted"


async def _ship(value: bytes) -> None:
    """Nobody calls it."""


class Standing:
    can_renew = True
    is_stopping = False
    is_stuck = False

    def __init__(self) -> None:
        self.woken = 0

    def release_unseen(self, record: Any) -> bool:
        return True

    def check_leases(self) -> None:
        """Locks last."""

    def is_idle(self) -> bool:
        return True

    def wake(self) -> None:
        self.woken += 1

    def on_admission(self) -> None:
        """Nothing pauses."""

    async def look_for_limits(self) -> None:
        """They are changed by the test."""


def pipeline_of(limits: ShareLimits, host: Standing) -> tuple[Route, Pipeline]:
    options = HandlerOptions(group="g", retry_topics=RetryTopics(tiers=(60.0,)))
    route = Route("ship", ("orders",), inspect_handler(_ship), options)
    publisher: Any = None  # nothing is written
    handler = RunningHandler(route, limits, host, clock=lambda: 0.0, wall_clock=lambda: 0.0)
    return route, Pipeline(handler, publisher)


@pytest.mark.anyio
async def test_a_record_of_a_batch_with_results_that_has_lost_its_lock_is_lost() -> None:
    """It was told to be accepted."""
    route, pipeline = pipeline_of(ShareLimits(), Standing())
    delivery = route.deliver(made_record("orders", b"1"))
    Deliveries([delivery]).publish("results", b"done")
    lease_of(delivery.record.batch).lose()
    assert await pipeline.executor.carry_out(delivery, ACCEPT) == "lost"
    assert (pipeline.handler.counts.lost, pipeline.handler.counts.done) == (1, 0)


@pytest.mark.anyio
async def test_what_a_slot_has_settled_is_not_settled_again_when_it_is_cancelled() -> None:
    """A batch whose settling was cancelled was settled twice."""
    route, pipeline = pipeline_of(ShareLimits(), Standing())
    slot = Slot()
    slot.batch = [route.deliver(made_record("orders", b"1", offset=offset)) for offset in range(3)]
    accepted, held, left = slot.batch
    await pipeline.executor.carry_out(accepted, ACCEPT)
    await pipeline.executor.carry_out(held, Decision(RecordOutcome.HELD, 5.0))
    await pipeline.processing.cancelled(slot)
    assert (pipeline.handler.counts.cancelled, pipeline.handler.counts.released, pipeline.queue.held) == (
        1,
        1,
        1,
    )
    assert [delivery.decided and str(delivery.decided) for delivery in (accepted, held, left)] == [
        "accepted",
        "held",
        "released",
    ]


@pytest.mark.anyio
async def test_what_a_batch_gives_up_is_handed_back_if_that_is_cancelled() -> None:
    """All of it at once; and until it is done, the slot has it."""
    kept: list[int] = []

    async def keep(delivery: Delivery, reason: str) -> None:
        kept.append(delivery.offset)
        await anyio.sleep_forever()

    async def ship(values: list[bytes]) -> None:
        raise AssertionError("it isn't called")

    options = HandlerOptions(group="g", dead_letters=keep, dead_letters_after=1.0, batch_size=3)
    route = Route("ship", ("orders",), inspect_handler(ship, is_batch=True), options, is_batch=True)
    publisher: Any = None  # nothing is written
    handler = RunningHandler(route, ShareLimits(), Standing(), clock=lambda: 0.0, wall_clock=lambda: 1e9)
    pipeline = Pipeline(handler, publisher)
    slot = Slot()
    records = [made_record("orders", b"1", offset=offset, timestamp=1_000) for offset in range(3)]
    slot.batch = deliveries = [route.deliver(record) for record in records]
    async with anyio.create_task_group() as tasks:
        pipeline.handler.tasks = tasks
        with anyio.CancelScope() as slot.scope:
            tasks.start_soon(_cancel_when, lambda: len(kept) == 3, slot)
            await pipeline.processing.batch(slot)
        assert slot.batch == deliveries
        await pipeline.processing.cancelled(slot)
        tasks.cancel_scope.cancel()
    assert pipeline.handler.counts.cancelled == 3
    assert all(delivery.is_done_with for delivery in deliveries)


async def _cancel_when(condition: Callable[[], bool], slot: Slot) -> None:
    while not condition():
        await anyio.sleep(0.001)
    slot.cancel()


@pytest.mark.anyio
async def test_a_record_is_processed_if_the_limit_was_raised_before_it_was_moved() -> None:
    """That ended the worker with an AssertionError."""
    limits, host = ShareLimits(deliveries=5), Standing()
    route, pipeline = pipeline_of(limits, host)
    delivery = route.deliver(made_record("orders", b"1", delivery_count=3))
    limits.deliveries = 10
    await pipeline.processing.move_away(delivery)
    assert [*pipeline.queue.take_ready()] == [delivery]
    assert host.woken == 1
