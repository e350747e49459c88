"""A running handler, on the embedded broker: functions of the user's that fail, and topics that appear later."""

from __future__ import annotations

import itertools
import re

import pytest

from kshare.client.record import ShareRecord
from kshare.testing import run_worker
from kshare.worker import Delivery, Retry, RetryTopics, Worker

pytestmark = pytest.mark.lengthy


def fail_always(attempt: int) -> float:
    raise LookupError(attempt)


@pytest.mark.parametrize("delay", [fail_always, lambda attempt: -1.0])
def test_worker_survives_a_delay_function_that_fails(delay: object) -> None:
    worker = Worker(group="g", retry=Retry(attempts=2, delay=delay), dead_letters="dead", breaker=None)  # type: ignore[arg-type]
    got: list[str] = []

    @worker.handler("orders")
    async def ship(value: str, delivery: Delivery) -> None:
        if value == "bad":
            raise ValueError
        got.append(value)

    with run_worker(worker) as running:
        running.produce("orders", b"bad")
        running.advance(120)
        running.produce("orders", b"good")
        running.wait_until_settled()
        assert [record.value for record in running.records("dead")] == [b"bad"]
    assert got == ["good"]


def fails_for_bad(record: ShareRecord) -> object:
    if record.value == b"bad":
        raise LookupError
    return record.key


def unhashable_for_bad(record: ShareRecord) -> object:
    return [record.key] if record.value == b"bad" else record.key


@pytest.mark.parametrize("order", [fails_for_bad, unhashable_for_bad])
def test_worker_survives_an_order_function_that_fails(order: object) -> None:
    worker = Worker(group="g", order=order, retry=Retry(attempts=1))  # type: ignore[arg-type]
    got: list[str] = []

    @worker.handler("orders")
    async def ship(value: str) -> None:
        got.append(value)

    with run_worker(worker) as running:
        running.produce("orders", b"bad")
        running.produce("orders", b"good")
        running.wait_until(lambda: "good" in got)


@pytest.mark.parametrize("name", ["only", "middleware", "on_error"])
def test_worker_survives_other_functions_that_fail(name: str) -> None:
    def explode(*arguments: object) -> None:
        raise LookupError

    worker = Worker(group="g", retry=Retry(attempts=1), **({"only": explode} if name == "only" else {}))  # type: ignore[arg-type]

    async def explode_around(*arguments: object) -> None:
        explode()

    if name == "middleware":
        worker.middleware(explode_around)
    elif name == "on_error":
        worker.on_error(explode)

    @worker.handler("orders")
    async def ship(value: str) -> None:
        raise ValueError

    with run_worker(worker) as running:
        running.produce("orders", b"1", b"2")
        running.wait_until_settled()
        assert running.counts["ship"].dead == 2


def test_retry_topics_of_topics_that_appear_later_are_read() -> None:
    worker = Worker(
        group="g", retry=Retry(attempts=2, delay=60), retry_topics=RetryTopics(tiers=(60,)), hold_up_to=1
    )
    attempts: list[int] = []

    @worker.handler(re.compile("orders-[0-9]"))
    async def ship(value: str, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1:
            raise ValueError

    with run_worker(worker, topics={"orders-1": 1}) as running:
        running.broker.create_topic("orders-2")
        running.advance(12)
        running.produce("orders-2", b"late")
        running.wait_until(lambda: running.counts["ship"].moved == 1)
        running.advance(62)
        running.wait_until(lambda: attempts == [1, 2])


def test_patterns_may_match_nothing_at_first() -> None:
    worker = Worker(
        group="g", retry=Retry(attempts=2, delay=60), retry_topics=RetryTopics(tiers=(60,)), hold_up_to=1
    )
    attempts: list[int] = []

    @worker.handler(re.compile("orders-[0-9]"))
    async def ship(value: str, delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1:
            raise ValueError

    with run_worker(worker, topics={"others": 1}) as running:
        running.broker.create_topic("orders-1")
        running.advance(12)
        running.produce("orders-1", b"late")
        running.wait_until(lambda: running.counts["ship"].moved == 1)
        running.advance(62)
        running.wait_until(lambda: attempts == [1, 2])


def test_order_functions_may_response_differently_each_time() -> None:
    lanes = itertools.count()
    worker = Worker(group="g", order=lambda record: next(lanes) % 2)
    got: list[str] = []

    @worker.handler("orders")
    async def ship(value: str) -> None:
        got.append(value)

    with run_worker(worker) as running:
        running.produce("orders", *(b"%d" % number for number in range(20)))
        running.wait_until(lambda: len(got) == 20)


def test_what_is_held_is_handed_back_at_the_end() -> None:
    worker = Worker(group="g", retry=Retry(delay=600))

    @worker.handler("orders")
    async def ship(value: str) -> None:
        raise ValueError

    with run_worker(worker) as running:
        running.produce("orders", b"1")
        running.wait_until(lambda: running.counts["ship"].held == 1)
        [runner] = running.worker.runners
        running.stop()
        assert (runner.counts.released, runner.counts.cancelled) == (1, 0)
