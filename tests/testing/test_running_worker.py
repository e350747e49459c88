"""A whole worker on the embedded broker, with the clock in the test's hand."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from kshare import ConfigError, KshareError
from kshare.testing import ManualClock, run_worker
from kshare.worker import Delivery, Retry, RetryTopics, Worker

pytestmark = pytest.mark.lengthy


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class Shop:
    """A worker that notes which attempts it makes. Records named `bad` fail."""

    def __init__(self, **options: Any) -> None:
        self.worker = Worker("not.used:9092", group="shippers", **options)
        self.attempts: list[tuple[str, int, int]] = []
        self.worker.handler("orders")(self.ship)

    async def ship(self, value: str, delivery: Delivery) -> None:
        self.attempts.append((value, delivery.attempt, delivery.delivery_count))
        if value == "bad":
            raise ValueError


def test_record_is_held_for_ten_minutes_and_its_lock_kept(backend: Any) -> None:
    shop = Shop(retry=Retry(attempts=2, delay=600), dead_letters="dead")
    with run_worker(shop.worker, backend=backend) as running:
        running.produce("orders", b"good", b"bad", key=b"k")
        running.wait_until(lambda: running.counts["ship"].held == 1)
        running.advance(590)
        assert shop.attempts == [("good", 1, 1), ("bad", 1, 1)]
        running.advance(11)
        running.wait_until_settled()
        assert shop.attempts[2:] == [("bad", 2, 1)]
        assert [(record.key, record.value) for record in running.records("dead")] == [(b"k", b"bad")]
        assert (running.counts["ship"].done, running.counts["ship"].dead) == (1, 1)


def test_copies_in_retry_topics_are_processed_when_they_are_due(backend: Any) -> None:
    shop = Shop(
        retry=Retry(attempts=3, delay=[60, 600]), retry_topics=RetryTopics(tiers=(60, 600)), hold_up_to=30
    )
    with run_worker(shop.worker, backend=backend) as running:
        running.produce("orders", b"bad")
        running.wait_until(lambda: running.counts["ship"].moved == 1)
        running.advance(61)
        running.wait_until(lambda: running.counts["ship"].moved == 2)
        assert [attempt for _, attempt, _ in shop.attempts] == [1, 2]
        running.advance(601)
        running.wait_until_settled()
    assert [attempt for _, attempt, _ in shop.attempts] == [1, 2, 3]


def test_handler_takes_a_quarter_of_an_hour(backend: Any) -> None:
    worker = Worker(group="shippers", time_limit=1000)
    steps: list[object] = []

    @worker.handler("orders")
    async def ship(value: bytes, delivery: Delivery) -> None:
        steps.append("began")
        before = anyio.current_time()
        await anyio.sleep(900)
        steps.append((round(anyio.current_time() - before, -1), delivery.delivery_count))

    with run_worker(worker, backend=backend) as running:
        running.produce("orders", b"")
        running.wait_until(lambda: steps)
        running.advance(890)
        assert steps == ["began"]
        running.advance(15)
        running.wait_until_settled()
    assert steps == ["began", (900, 1)]


def test_time_limit_cancels_and_the_record_is_delivered_again(backend: Any) -> None:
    worker = Worker(group="shippers", time_limit=300)
    deliveries: list[int] = []

    @worker.handler("orders")
    async def ship(value: bytes, delivery: Delivery) -> None:
        deliveries.append(delivery.delivery_count)
        if delivery.delivery_count == 1:
            await anyio.sleep_forever()

    with run_worker(worker, backend=backend) as running:
        running.produce("orders", b"")
        running.wait_until(lambda: deliveries)
        running.advance(302)
        running.wait_until_settled()
        assert (running.counts["ship"].cancelled, running.counts["ship"].released) == (1, 1)
    assert deliveries == [1, 2]


def test_short_locks_are_kept_too(backend: Any) -> None:
    shop = Shop(retry=Retry(attempts=2, delay=20))
    settings = {"group.share.record.lock.duration.ms": "1000"}
    with run_worker(shop.worker, backend=backend, min_lock_ms=1000, settings=settings) as running:
        running.produce("orders", b"bad")
        running.wait_until(lambda: running.counts["ship"].held == 1)
        running.advance(21)
        running.wait_until_settled()
        assert running.counts["ship"].lost == 0
    assert shop.attempts == [("bad", 1, 1), ("bad", 2, 1)]


def test_batches_patterns_and_plain_functions() -> None:
    worker = Worker(group="shippers")
    got: list[object] = []

    @worker.handler(re.compile("orders-.*"))
    def ship(value: str) -> None:
        got.append(value)

    @worker.batch_handler("parcels", batch_size=10, batch_wait=5)
    async def pack(values: list[str]) -> None:
        got.append(values)

    with run_worker(worker, topics={"orders-1": 2}) as running:
        running.produce("orders-1", b"a", partition=1)
        running.produce("parcels", b"1", b"2")
        running.advance(6)
        running.wait_until_settled()
    assert sorted(got, key=str) == [["1", "2"], "a"]


def test_end_of_the_block_cancels_running_handlers() -> None:
    worker = Worker("localhost:1", group="shippers", drain_timeout=1000, client_id="me")
    ends: list[str] = []

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ends.append("cancelled")

    @worker.on_shutdown
    def closed() -> None:
        ends.append("closed")

    with run_worker(worker) as running:
        running.produce("orders", b"")
        running.wait_until(lambda: running.worker.runners[0].running)
    assert ends == ["cancelled", "closed"]
    assert (worker.bootstrap_servers, worker.connection) == ("localhost:1", {"client_id": "me"})


def test_stopped_worker_finishes_what_it_has() -> None:
    shop = Shop()
    with run_worker(shop.worker) as running:
        running.produce("orders", b"1")
        running.wait_until(lambda: shop.attempts)
        running.stop()
        with pytest.raises(KshareError, match="the worker was stopped"):
            running.advance(1)


def test_waiting_in_vain_says_what_is_open() -> None:
    shop = Shop(retry=Retry(delay=600))
    with run_worker(shop.worker) as running:
        running.produce("orders", b"bad")
        running.wait_until(lambda: running.counts["ship"].held)
        with pytest.raises(TimeoutError) as caught:
            running.wait_until_settled(timeout=0)
    message = str(caught.value)
    assert "1 in orders[0] in group shippers" in message
    assert "1 wait for their next attempt" in message
    assert "advance the clock" in message


def test_errors_of_the_worker_are_raised() -> None:
    shop = Shop()

    @shop.worker.on_startup
    def fail() -> None:
        raise ValueError("no database")

    with pytest.raises(ValueError, match="no database"), run_worker(shop.worker):
        raise AssertionError


def test_errors_of_the_test_are_raised() -> None:
    with pytest.raises(ZeroDivisionError), run_worker(Shop().worker):
        _ = 1 / 0


@pytest.mark.parametrize("seconds", [-1, "1", True, float("nan")])
def test_time_never_goes_back(seconds: Any) -> None:
    with run_worker(Shop().worker) as running, pytest.raises(ConfigError, match="seconds must be 0 or more"):
        running.advance(seconds)


def test_other_clocks_are_refused() -> None:
    with (
        pytest.raises(ConfigError, match="run_worker has a clock of its own"),
        run_worker(Shop().worker, clock=ManualClock()),
    ):
        raise AssertionError


def test_after_the_block_counts_can_be_read_and_the_rest_says_that_it_has_ended(backend: Any) -> None:
    shop = Shop()
    with run_worker(shop.worker, backend=backend) as running:
        running.produce("orders", b"good")
        running.wait_until_settled()
        running.stop()
        assert running.counts["ship"].done == 1
    assert running.counts["ship"].done == 1
    for ask in (running.stop, running.cancel, running.wait_until_settled, lambda: running.advance(1)):
        with pytest.raises(KshareError, match=r"ended|was stopped"):
            ask()
    with pytest.raises(KshareError):
        running.records("orders")
    with pytest.raises(KshareError):
        running.produce("orders", b"late")
