"""Batches are collected for as long as `batch_wait` says, whatever else holds them up; and slots live on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from kshare.testing import run_worker
from kshare.worker import Delivery, HandlerOptions, Worker
from kshare.worker.rules import tables
from kshare.worker.rules.giving_up import give_up
from kshare.worker.rules.rule import Rule, always, never


@pytest.mark.lengthy
def test_a_rate_limit_does_not_make_batches_wait_longer() -> None:
    worker = Worker(group="g", rate_limit=5, concurrency=1)
    batches: list[list[int]] = []

    @worker.batch_handler("orders", batch_size=100, batch_wait=1, time_limit=3)
    async def ship(numbers: list[int]) -> None:
        batches.append(numbers)

    with run_worker(worker) as running:
        running.produce("orders", *(b"%d" % number for number in range(30)))
        for _ in range(20):
            running.advance(0.5)
        running.wait_until(lambda: sum(map(len, batches)) == 30)
        assert running.counts["ship"].cancelled == 0
        assert len(batches) > 3


@pytest.mark.lengthy
def test_time_for_collecting_does_not_count_as_running() -> None:
    worker = Worker(group="g", concurrency=1)
    batches: list[list[int]] = []

    @worker.batch_handler("orders", batch_size=100, batch_wait=20, time_limit=3)
    async def ship(numbers: list[int]) -> None:
        batches.append(numbers)

    with run_worker(worker) as running:
        running.produce("orders", b"1")
        running.advance(25)
        running.wait_until(lambda: batches == [[1]])
        assert running.counts["ship"].cancelled == 0


def test_a_batch_that_becomes_full_is_processed_at_once() -> None:
    """The slot that collects is told of new records, and not another one."""
    worker = Worker(group="g", concurrency=3)
    batches: list[list[int]] = []

    @worker.batch_handler("orders", batch_size=20, batch_wait=3600, time_limit=7200)
    async def ship(numbers: list[int]) -> None:
        batches.append(numbers)

    with run_worker(worker) as running:
        for first in range(0, 60, 5):
            running.produce("orders", *(b"%d" % number for number in range(first, first + 5)))
        running.wait_until(lambda: [len(batch) for batch in batches] == [20, 20, 20])


@pytest.mark.lengthy
def test_a_handler_that_pauses_itself_gets_no_more_records_of_its_burst() -> None:
    worker = Worker(group="g", concurrency=1)
    got: list[int] = []

    @worker.handler("orders")
    async def ship(number: int) -> None:
        got.append(number)
        if number == 250:
            worker.pause("orders", 10)

    with run_worker(worker) as running:
        running.produce("orders", *(b"%d" % number for number in range(500)))
        running.wait_until(lambda: 250 in got)
        running.advance(5)
        assert got == [*range(251)]
        running.advance(10)
        running.wait_until(lambda: len(got) == 500)
        assert got == [*range(500)]


@pytest.mark.parametrize("is_of_new_records", [always, never])
def test_a_new_policy_is_asked_about_all_records(
    is_of_new_records: Callable[[HandlerOptions], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it says that it isn't about new ones: handlers that take only the payload are called directly then."""
    nothing = Rule(
        "nothing",
        "always",
        "given up",
        lambda facts: True,
        lambda facts: give_up(facts, "nothing is called"),
        is_of_new_records,
    )
    monkeypatch.setattr(tables, "BEFORE_CALL", (*tables.BEFORE_CALL, nothing))
    worker = Worker(group="g", concurrency=1)
    got: list[int] = []

    @worker.handler("orders")
    async def ship(number: int) -> None:
        got.append(number)

    with run_worker(worker) as running:
        running.produce("orders", b"1", b"2")
        running.wait_until_settled()
        [counts] = running.counts.values()
    is_asked = is_of_new_records is always
    assert (got, counts.done, counts.dead) == (([], 0, 2) if is_asked else ([1, 2], 2, 0))


@pytest.mark.lengthy
@pytest.mark.parametrize("takes", ["payload", "delivery", "batch"])
def test_a_task_that_is_cancelled_after_its_handler_has_returned_goes_on(takes: str) -> None:
    """A handler may have armed a watchdog for its task, and not have disarmed it."""
    worker = Worker(group="g", concurrency=1)
    got: list[int] = []
    watchdogs: list[Callable[[], object]] = []

    def ship(number: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        watchdogs.append(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
        got.append(number)

    if takes == "payload":

        @worker.handler("orders")
        async def ship_payload(number: int) -> None:
            ship(number)

    elif takes == "delivery":

        @worker.handler("orders")
        async def ship_delivery(number: int, delivery: Delivery) -> None:
            ship(number)

    else:

        @worker.batch_handler("orders", batch_size=1)
        async def ship_batch(numbers: list[int]) -> None:
            ship(numbers[0])

    with run_worker(worker) as running:
        for number in range(3):
            running.produce("orders", b"%d" % number)
            running.wait_until(lambda until=number + 1: len(got) == until)  # type: ignore[misc]
            running.wait_until_settled()
            watchdogs[-1]()
        [counts] = running.counts.values()
        assert (counts.cancelled, counts.failed, counts.done) == (0, 0, 3)
    assert got == [0, 1, 2]
