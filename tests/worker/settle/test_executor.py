"""Records whose copies can't be written are never lost, and what is handed back keeps its attempts and delays."""

from __future__ import annotations

import logging

import anyio
import pytest

from kshare.testing import run_worker
from kshare.worker import Delivery, Retry, RetryTopics, Worker


@pytest.mark.lengthy
@pytest.mark.parametrize("fails_for", ["a while", "long"])
def test_dead_letters_that_cannot_be_kept_are_tried_again(
    fails_for: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The record is held meanwhile: each release would call the handler again, and count as a delivery."""
    refusals = 2 if fails_for == "a while" else 12
    tried: list[int] = []
    kept: list[bytes | None] = []

    async def keep(delivery: Delivery, reason: str) -> None:
        tried.append(delivery.delivery_count)
        if len(tried) <= refusals:
            raise OSError("disk full")
        kept.append(delivery.value)

    worker = Worker(group="g", retry=Retry(attempts=1), dead_letters=keep, breaker=None)

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        raise ValueError

    with run_worker(worker) as running:
        running.produce("orders", b"bad")
        for _ in range(20):
            running.advance(20)
        running.wait_until(lambda: kept == [b"bad"])
        running.wait_until_settled()
    assert max(tried) == 1
    assert len(tried) == refusals + 1
    assert all(record.levelno <= logging.ERROR for record in caplog.records)


@pytest.mark.lengthy
@pytest.mark.parametrize("retry_topics", [False, RetryTopics(tiers=(1.0,))])
def test_copies_of_large_records_fit(retry_topics: bool | RetryTopics) -> None:
    """The largest record that brokers take by default, and the headers of its copy."""
    worker = Worker(
        group="g",
        retry=Retry(attempts=2, delay=1),
        retry_topics=retry_topics,
        hold_up_to=0.5,
        dead_letters="dead",
        breaker=None,
    )

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        raise ValueError

    value = bytes(1_048_400)
    with run_worker(worker) as running:
        running.produce("orders", value)
        for _ in range(4):
            running.advance(1)
        running.wait_until_settled()
        assert [record.value for record in running.records("dead")] == [value]


@pytest.mark.lengthy
def test_copies_of_a_run_say_so_whoever_writes_them_again() -> None:
    """Otherwise a run that is over would be taken for a record that waits for its next attempt."""
    worker = Worker(
        group="g",
        retry_topics=RetryTopics(tiers=(600.0,)),
        move_runs=True,
        max_pinned=0.001,
        concurrency=5,
        time_limit=3600,
    )

    @worker.handler("jobs")
    async def work(number: int) -> None:
        if number == 0:
            await anyio.sleep(1000)

    with run_worker(worker, topics={"jobs": 1}) as running:
        running.broker.set_group_config("g.retry", {"share.delivery.count.limit": "2"})
        running.produce("jobs", *(b"%d" % number for number in range(200)))
        running.wait_until(lambda: running.counts["work"].done == 199)
        for _ in range(25):
            running.advance(20)
        assert running.counts["work"].moved == 1
        for _ in range(30):
            running.advance(20)
        running.wait_until(lambda: running.counts["work"].done == 200)
        running.stop()
        copies = running.records("jobs.retry.10m")
    assert len(copies) > 2
    assert all("__kshare.retry.run" in dict(copy.headers) for copy in copies)


@pytest.mark.lengthy
@pytest.mark.parametrize("takes", ["payload", "delivery"])
def test_a_dead_letters_function_that_hangs_has_a_limit(
    takes: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The record is held, the slot goes on, and a time limit of the handler doesn't call the handler again."""
    monkeypatch.setattr("kshare.worker.settle.copies._KEEP_LIMIT_S", 5.0)
    calls: list[bytes | None] = []
    hangs = True

    async def keep(delivery: Delivery, reason: str) -> None:
        if hangs:
            await anyio.sleep_forever()

    worker = Worker(
        group="g",
        concurrency=1,
        retry=Retry(attempts=1),
        dead_letters=keep,
        time_limit=2.0,
        breaker=None,
        drain_timeout=1.0,
    )

    async def fail(value: bytes) -> None:
        calls.append(value)
        if value == b"bad":
            raise ValueError

    async def fail_delivery(value: bytes, delivery: Delivery) -> None:
        await fail(value)

    worker.handler("orders")(fail if takes == "payload" else fail_delivery)
    with run_worker(worker) as running:
        running.produce("orders", b"bad", b"good")
        running.advance(8)
        running.wait_until(lambda: b"good" in calls)
        assert "records couldn't be kept by dead_letters" in caplog.text
        assert "took longer than 5 s" in caplog.text
        hangs = False
        running.advance(10)
        running.wait_until_settled()
        [counts] = running.counts.values()
        assert (counts.dead, counts.done) == (1, 1)
    assert calls == [b"bad", b"good"]
