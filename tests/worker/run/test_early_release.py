"""Brokers that can't renew locks deliver whole batches: what isn't processed in time is given back, and never lost."""

from __future__ import annotations

import logging
from collections import Counter

import anyio
import pytest

from kshare.testing import run_worker
from kshare.testing.running_worker import Backend
from kshare.worker import Delivery, Retry, RetryTopics, Worker

pytestmark = pytest.mark.lengthy

RECORDS = 200
"""Each takes a second, and the lock lasts 30 of them: more than a batch's five deliveries would suffice for."""
LOCK_S = 30


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("order", ["none", "key"])
def test_batch_that_takes_longer_than_all_its_deliveries(
    backend: Backend, order: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(group="g", concurrency=1, order=order)  # type: ignore[arg-type]
    runs: Counter[str] = Counter()
    deliveries = set()

    @worker.handler("orders")
    async def ship(value: str, delivery: Delivery) -> None:
        runs[value] += 1
        deliveries.add(delivery.delivery_count)
        await anyio.sleep(1)

    with run_worker(worker, backend=backend, release="4.1") as running:
        running.produce("orders", *(b"%d" % number for number in range(RECORDS)), key=b"same")
        while len(runs) < RECORDS:
            before = len(runs)
            running.advance(LOCK_S)
            assert len(runs) > before
        running.advance(2)
        running.wait_until_settled()
        assert running.counts["ship"].lost == 0
    assert runs == {str(number): 1 for number in range(RECORDS)}
    assert deliveries == {1}
    [first, *_] = [record for record in caplog.records if "gave records back" in record.getMessage()]
    assert first.levelno == logging.WARNING
    assert "raise share.record.lock.duration.ms or the concurrency" in first.getMessage()


def test_handlers_that_outlast_their_locks_use_up_deliveries() -> None:
    """So they don't keep those behind them waiting for ever."""
    worker = Worker(group="g", concurrency=2, dead_letters="dead")
    runs: Counter[str] = Counter()

    @worker.handler("orders")
    async def ship(value: str) -> None:
        runs[value] += 1
        if value.startswith("slow"):
            await anyio.sleep(2 * LOCK_S)

    with run_worker(worker, release="4.1") as running:
        running.produce("orders", b"slow 1", b"slow 2", b"1", b"2")
        running.advance(5 * LOCK_S)
        running.wait_until_settled()
        assert {record.value for record in running.records("dead")} == {b"slow 1", b"slow 2"}
    assert runs == {"slow 1": 3, "slow 2": 3, "1": 1, "2": 1}


def test_failed_records_keep_their_attempts_if_there_are_retry_topics() -> None:
    worker = Worker(
        group="g",
        concurrency=1,
        retry=Retry(attempts=3, delay=[0.1, 60.0]),
        retry_topics=RetryTopics(tiers=(60,)),
        dead_letters="dead",
        breaker=None,
    )
    runs: Counter[str] = Counter()

    @worker.handler("orders")
    async def ship(value: str) -> None:
        runs[value] += 1
        await anyio.sleep(1)
        if value == "0":
            raise ValueError

    with run_worker(worker, release="4.1") as running:
        running.produce("orders", *(b"%d" % number for number in range(40)))
        for _ in range(5):
            running.advance(LOCK_S)
        running.wait_until_settled()
        assert [record.value for record in running.records("dead")] == [b"0"]
    assert runs == {str(number): 1 for number in range(1, 40)} | {"0": 3}


def test_what_waits_while_the_handler_is_paused_is_given_back() -> None:
    worker = Worker(group="g", concurrency=1)
    deliveries = []

    @worker.handler("orders")
    async def ship(value: str, delivery: Delivery) -> None:
        deliveries.append(delivery.delivery_count)
        if len(deliveries) == 1:
            worker.runners[0].pause(20 * LOCK_S)

    with run_worker(worker, release="4.1") as running:
        running.produce("orders", b"1", b"2")
        running.wait_until(lambda: deliveries)
        running.advance(22 * LOCK_S)
        running.wait_until_settled()
    assert deliveries == [1, 1]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_records_whose_dead_letters_cannot_be_kept_are_given_back(backend: Backend) -> None:
    """Far longer than all of their deliveries would last."""
    kept: list[bytes | None] = []
    deliveries = set()
    is_down = [True]

    async def keep(delivery: Delivery, reason: str) -> None:
        deliveries.add(delivery.delivery_count)
        if is_down:
            raise OSError("disk full")
        kept.append(delivery.value)

    worker = Worker(group="g", retry=Retry(attempts=1), dead_letters=keep, breaker=None)

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        raise ValueError

    with run_worker(worker, backend=backend, release="4.1") as running:
        running.produce("orders", b"bad")
        for _ in range(20):
            running.advance(LOCK_S)
        assert running.counts["ship"].lost == 0
        is_down.clear()
        running.advance(2 * LOCK_S)
        running.wait_until(lambda: kept == [b"bad"])
        running.wait_until_settled()
    assert deliveries == {1}
