"""What observers are told, by workers on the embedded broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kshare.errors import InProgress
from kshare.testing import Broker
from kshare.worker import (
    Breaker,
    Delivery,
    HandlerRun,
    RecordOutcome,
    RecordProcessed,
    Retry,
    RetryTopics,
    RunResult,
    Worker,
    WorkerHealth,
    WorkerObserver,
)
from kshare.worker.rules.breaker import BreakerState
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = pytest.mark.anyio


class Diary(WorkerObserver):
    def __init__(self) -> None:
        self.runs: list[HandlerRun] = []
        self.settled: list[RecordProcessed] = []
        self.breaker: list[tuple[str, BreakerState]] = []
        self.serving: list[str] = []

    def on_serve(self, health: Callable[[], WorkerHealth]) -> Callable[[], None]:
        self.serving.append(str(health().state))
        return lambda: self.serving.append(str(health().state))

    def on_run(self, run: HandlerRun) -> Callable[[], None]:
        assert run.result is None
        return lambda: self.runs.append(run)

    def on_settled(self, settled: RecordProcessed) -> None:
        self.settled.append(settled)

    def on_breaker(self, handler: str, group: str, state: BreakerState) -> None:
        self.breaker.append((handler, state))

    @property
    def results(self) -> list[RunResult | None]:
        return [run.result for run in self.runs]

    @property
    def outcomes(self) -> list[tuple[RecordOutcome, str]]:
        return [(record.outcome, record.cause) for record in self.settled]


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    from_the_start(kshare_broker)
    return kshare_broker


def observed(broker: Broker, **options: Any) -> tuple[Worker, Diary]:
    worker = Worker(broker.bootstrap, group="g", **options)
    diary = Diary()
    worker.observe(diary)
    return worker, diary


@pytest.mark.lengthy
async def test_runs_that_return(broker: Broker, anyio_backend: str) -> None:
    worker, diary = observed(broker)
    seen = []

    @worker.handler("orders")
    async def ship(value: str) -> None:
        seen.append(value)

    broker.produce("orders", [b"1", b"2"])
    async with running(worker):
        await until(lambda: len(diary.settled) == 2)
    assert seen == ["1", "2"]
    assert [(run.handler, run.group, run.is_batch) for run in diary.runs] == [("ship", "g", False)] * 2
    assert diary.results == [RunResult.RETURNED] * 2
    assert diary.outcomes == [(RecordOutcome.ACCEPTED, "")] * 2
    assert diary.serving == ["starting", "stopped"]
    assert all(run.seconds > 0 for run in diary.runs)


@pytest.mark.lengthy
async def test_failures_are_held_and_become_dead_letters(broker: Broker, anyio_backend: str) -> None:
    worker, diary = observed(broker, retry=Retry(attempts=2, delay=0.01), dead_letters="dead")

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        raise ValueError(value)

    broker.produce("orders", [b"1"])
    async with running(worker):
        await until(lambda: len(diary.settled) == 2)
    assert diary.results == [RunResult.FAILED] * 2
    assert isinstance(diary.runs[0].error, ValueError)
    assert diary.outcomes == [(RecordOutcome.HELD, "ValueError"), (RecordOutcome.DEAD_LETTER, "ValueError")]


@pytest.mark.lengthy
async def test_records_are_moved_filtered_and_released(broker: Broker, anyio_backend: str) -> None:
    worker, diary = observed(
        broker,
        concurrency=1,
        only=lambda delivery: delivery.value != b"filtered",
        retry=Retry(attempts=2, delay=60),
        retry_topics=RetryTopics(tiers=(60.0,)),
    )

    @worker.handler("orders")
    async def ship(value: bytes, delivery: Delivery) -> None:
        if value == b"postponed":
            raise InProgress("another member has it", retry_after=60)
        if value == b"moved":
            raise ValueError
        if delivery.delivery_count == 1:
            delivery.release()

    broker.produce("orders", [b"filtered", b"moved", b"postponed", b"released"])
    async with running(worker):
        await until(lambda: len(diary.settled) >= 4)
    assert diary.results[:3] == [RunResult.FAILED, RunResult.POSTPONED, RunResult.RETURNED]
    assert [outcome for outcome, _ in diary.outcomes[:4]] == [
        RecordOutcome.FILTERED,
        RecordOutcome.MOVED,
        RecordOutcome.MOVED,
        RecordOutcome.RELEASED,
    ]
    assert diary.settled[1].seconds > 0


@pytest.mark.lengthy
async def test_cancelled_runs_release_their_records(broker: Broker, anyio_backend: str) -> None:
    worker, diary = observed(broker, time_limit=0.05)

    @worker.handler("orders")
    async def ship(value: bytes, delivery: Delivery) -> None:
        if delivery.delivery_count == 1:
            await anyio.sleep_forever()

    broker.produce("orders", [b"1"])
    async with running(worker):
        await until(lambda: len(diary.settled) == 2)
    assert diary.results == [RunResult.CANCELLED, RunResult.RETURNED]
    assert [outcome for outcome, _ in diary.outcomes] == [RecordOutcome.RELEASED, RecordOutcome.ACCEPTED]


@pytest.mark.lengthy
async def test_a_batch_is_one_run(broker: Broker, anyio_backend: str) -> None:
    worker, diary = observed(broker, batch_size=3)

    @worker.batch_handler("orders")
    def ship(values: list[bytes]) -> None:
        pass

    broker.produce("orders", [b"1", b"2", b"3"])
    async with running(worker):
        await until(lambda: len(diary.settled) == 3)
    (run,) = diary.runs
    assert run.is_batch
    assert [delivery.offset for delivery in run.deliveries] == [0, 1, 2]


@pytest.mark.lengthy
async def test_breaker_opens_and_closes(broker: Broker, anyio_backend: str) -> None:
    worker, diary = observed(
        broker, retry=Retry(delay=0.01), breaker=Breaker(min_failures=2, probe_after=0.05)
    )
    is_down = True

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        if is_down:
            raise OSError("down")

    broker.produce("orders", [b"1", b"2"])
    async with running(worker):
        await until(lambda: len(diary.breaker) == 1)
        assert str(worker.health().handlers[0].state) == "breaker open"
        is_down = False
        await until(lambda: len(diary.breaker) == 2)
    assert diary.breaker == [("ship", BreakerState.OPEN), ("ship", BreakerState.CLOSED)]


class Broken(WorkerObserver):
    def on_serve(self, health: Callable[[], WorkerHealth]) -> Callable[[], None]:
        raise ValueError("on_serve")

    def on_run(self, run: HandlerRun) -> Callable[[], None]:
        def ended() -> None:
            raise ValueError("ended")

        return ended

    def on_settled(self, settled: RecordProcessed) -> None:
        raise ValueError("on_settled")


async def test_observers_that_raise_are_logged(
    broker: Broker, anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(broker.bootstrap, group="g")
    diary = Diary()
    worker.observe(Broken())
    worker.observe(diary)

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        pass

    broker.produce("orders", [b"1"])
    async with running(worker):
        await until(lambda: len(diary.settled) == 1)
    assert diary.results == [RunResult.RETURNED]
    for name in ("Broken.on_serve", "Broken.on_run.<locals>.ended", "Broken.on_settled"):
        assert f"observer {name} raised" in caplog.text
