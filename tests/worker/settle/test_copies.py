"""Copies that are too large for their topic: what becomes of the record, and that nothing else waits for it."""

from __future__ import annotations

import logging
import random

import pytest

from kshare.testing import Broker, run_worker
from kshare.worker import Delivery, Retry, RetryTopics, Worker
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = pytest.mark.anyio

LIMIT = "3000"


def noise(size: int) -> bytes:
    """Bytes that can't be compressed."""
    return random.Random(1).randbytes(size)


def header(headers: object, name: str) -> bytes | None:
    return dict(headers)[name]  # type: ignore[call-overload, no-any-return]


@pytest.mark.lengthy
@pytest.mark.parametrize("retry_topics", [False, RetryTopics(tiers=(1.0,))])
async def test_topics_of_copies_take_the_largest_records_of_their_source(
    kshare_broker: Broker, retry_topics: bool | RetryTopics
) -> None:
    """They were created for 2 MiB: a larger record stopped its partition for good."""
    from_the_start(kshare_broker)
    kshare_broker.create_topic("orders", settings={"max.message.bytes": "8000000"})
    kshare_broker.create_topic("parcels")
    value = noise(5_000_000)
    worker = Worker(
        kshare_broker.bootstrap,
        group="g",
        retry=Retry(attempts=2, delay=0.02),
        hold_up_to=0.01,
        retry_topics=retry_topics,
        dead_letters="dead",
        breaker=None,
    )

    @worker.handler("orders", "parcels")
    async def ship(value: bytes) -> None:
        raise ValueError

    async with running(worker):
        kshare_broker.produce("orders", [value])
        await until(lambda: worker.runners[0].counts.dead == 1)
    assert [record.value for record in kshare_broker.records("dead")] == [value]


def oversized_worker(policy: str) -> Worker:
    worker = Worker(
        group="g",
        retry=Retry(attempts=1),
        dead_letters="dead",
        oversized_dead_letters=policy,  # type: ignore[arg-type]
        breaker=None,
    )

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        if value != b"good":
            raise ValueError

    return worker


@pytest.mark.lengthy
def test_a_dead_letter_that_is_too_large_is_held_until_its_topic_takes_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    value = noise(5000)
    with run_worker(oversized_worker("hold")) as running_worker:
        running_worker.broker.set_topic_config("dead", {"max.message.bytes": LIMIT})
        running_worker.produce("orders", value)
        running_worker.advance(100)
        assert running_worker.counts["ship"].dead == 0
        running_worker.broker.set_topic_config("dead", {"max.message.bytes": "10000"})
        running_worker.advance(60)
        running_worker.wait_until_settled()
        assert [record.value for record in running_worker.records("dead")] == [value]
    assert "raise its max.message.bytes, or set oversized_dead_letters" in caplog.text


@pytest.mark.lengthy
def test_a_dead_letter_that_is_too_large_can_be_rejected(caplog: pytest.LogCaptureFixture) -> None:
    with run_worker(oversized_worker("reject")) as running_worker:
        running_worker.broker.set_topic_config("dead", {"max.message.bytes": LIMIT})
        running_worker.produce("orders", noise(5000), b"bad", b"good")
        running_worker.wait_until_settled()
        assert [record.value for record in running_worker.records("dead")] == [b"bad"]
        assert running_worker.counts["ship"].dead == 2
    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "rejected without a dead letter" in line.getMessage()
    assert "orders[0]@0" in line.getMessage()


@pytest.mark.lengthy
@pytest.mark.parametrize("size", [5000, 50_000])
def test_a_dead_letter_that_is_too_large_can_be_cut(size: int, caplog: pytest.LogCaptureFixture) -> None:
    value = noise(size)
    with run_worker(oversized_worker("truncate")) as running_worker:
        running_worker.broker.set_topic_config("dead", {"max.message.bytes": LIMIT})
        running_worker.broker.produce("orders", [value], key=b"k", headers=[("h", b"v")])
        running_worker.wait_until_settled()
        [dead] = running_worker.records("dead")
    assert (dead.key, header(dead.headers, "h")) == (b"k", b"v")
    assert dead.value is not None
    assert 1000 < len(dead.value) < 3000
    assert value.startswith(bytes(dead.value))
    assert header(dead.headers, "__dlq.errors.truncated") == str(size).encode()
    assert "were truncated" in caplog.text


@pytest.mark.lengthy
def test_a_dead_letter_that_is_too_large_without_its_value_is_held(caplog: pytest.LogCaptureFixture) -> None:
    with run_worker(oversized_worker("truncate")) as running_worker:
        running_worker.broker.set_topic_config("dead", {"max.message.bytes": LIMIT})
        running_worker.broker.produce("orders", [b"bad"], key=noise(5000))
        running_worker.advance(100)
        assert running_worker.counts["ship"].dead == 0
        assert len(running_worker.records("dead")) == 0
    assert "raise its max.message.bytes" in caplog.text


@pytest.mark.lengthy
def test_a_record_that_is_too_large_for_its_retry_topic_is_held_for_its_next_attempt() -> None:
    """It was never tried again: its copy was written every 30 seconds, in vain, and its partition stood still."""
    worker = Worker(
        group="g",
        retry=Retry(attempts=3, delay=60),
        retry_topics=RetryTopics(tiers=(60.0,)),
        dead_letters="dead",
        breaker=None,
    )
    attempts: list[int] = []

    @worker.handler("orders")
    async def ship(value: bytes, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        raise ValueError

    with run_worker(worker) as running_worker:
        running_worker.broker.set_topic_config("orders.retry.1m", {"max.message.bytes": LIMIT})
        value = noise(5000)
        running_worker.produce("orders", value)
        running_worker.advance(150)
        running_worker.wait_until_settled()
        assert [record.value for record in running_worker.records("dead")] == [value]
    assert attempts == [1, 2, 3]


@pytest.mark.lengthy
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_record_that_is_too_large_for_its_retry_topic_is_released_when_the_worker_stops(
    backend: str,
) -> None:
    worker = Worker(
        group="g", retry=Retry(attempts=3, delay=60), retry_topics=RetryTopics(tiers=(60.0,)), breaker=None
    )

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        raise ValueError

    with run_worker(worker, backend=backend) as running_worker:  # type: ignore[arg-type]
        running_worker.broker.set_topic_config("orders.retry.1m", {"max.message.bytes": LIMIT})
        running_worker.produce("orders", noise(5000))
        running_worker.wait_until(lambda: running_worker.counts["ship"].held == 1)
        [runner] = worker.runners
        running_worker.stop()
        assert (runner.counts.released, runner.counts.lost) == (1, 0)
