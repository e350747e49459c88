"""Log lines of handlers, and those of the worker about a record, have the record's coordinates."""

from __future__ import annotations

import logging

import anyio
import pytest

from kshare.testing import Broker
from kshare.worker import Delivery, RecordLogFilter, Retry, Worker
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = pytest.mark.anyio

NAMES = ("group", "handler", "topic", "partition", "offset", "attempt")
log = logging.getLogger("app")


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders", 2)
    from_the_start(kshare_broker)
    return kshare_broker


@pytest.fixture
def worker(broker: Broker, caplog: pytest.LogCaptureFixture) -> Worker:
    worker = Worker(broker.bootstrap, group="g", retry=Retry(attempts=2, delay=0.01))
    coordinates = RecordLogFilter()
    worker.observe(coordinates)
    caplog.handler.addFilter(coordinates)
    caplog.set_level(logging.INFO)
    return worker


def fields(record: logging.LogRecord) -> tuple[object, ...]:
    return tuple(vars(record).get(name) for name in NAMES)


COORDINATES = ("g", "ship", "orders", 1, 0, 1)


def logged(caplog: pytest.LogCaptureFixture, text: str) -> list[tuple[object, ...]]:
    return [fields(record) for record in caplog.records if text in record.getMessage()]


@pytest.mark.lengthy
async def test_lines_of_async_handlers_and_of_threads(
    broker: Broker, worker: Worker, caplog: pytest.LogCaptureFixture, anyio_backend: str
) -> None:
    broker.create_topic("bills")

    @worker.handler("orders")
    async def ship(value: str) -> None:
        log.info("before %s", value)
        await anyio.sleep(0.001)
        log.info("after %s", value)

    @worker.handler("bills")
    def pay(value: str) -> None:
        log.info("paid %s", value)

    broker.produce("orders", [b"a", b"b"], partition=1)
    broker.produce("bills", [b"c"])
    async with running(worker):
        await until(lambda: sum(runner.counts.done for runner in worker.runners) == 3)
    for text, offset in (("before a", 0), ("after a", 0), ("after b", 1)):
        assert logged(caplog, text) == [("g", "ship", "orders", 1, offset, 1)]
    assert logged(caplog, "paid c") == [("g", "pay", "bills", 0, 0, 1)]
    assert logged(caplog, "running: ship") == [(None,) * len(NAMES)]


@pytest.mark.lengthy
async def test_lines_of_batch_handlers(
    broker: Broker, worker: Worker, caplog: pytest.LogCaptureFixture, anyio_backend: str
) -> None:
    @worker.batch_handler("orders", batch_size=2)
    async def ship(deliveries: list[Delivery]) -> None:
        log.info("shipped")

    broker.produce("orders", [b"1", b"2"])
    async with running(worker):
        await until(lambda: worker.runners[0].counts.done == 2)
    (record,) = [line for line in caplog.records if line.getMessage() == "shipped"]
    assert (vars(record)["group"], vars(record)["handler"], vars(record)["records"]) == ("g", "ship", 2)
    assert not hasattr(record, "offset")


@pytest.mark.lengthy
async def test_the_workers_own_lines_about_a_record(
    broker: Broker, caplog: pytest.LogCaptureFixture, anyio_backend: str
) -> None:
    worker = Worker(broker.bootstrap, group="g", retry=Retry(attempts=1))

    @worker.handler("orders")
    async def ship(value: str) -> None:
        raise ValueError("the warehouse\nis closed")

    broker.produce("orders", [b"1"], partition=1)
    async with running(worker):
        await until(lambda: worker.runners[0].counts.dead == 1)
    assert logged(caplog, "failed with ValueError: the warehouse is closed") == [COORDINATES]
    assert logged(caplog, "rejected: ValueError in attempt 1") == [COORDINATES]


@pytest.mark.lengthy
async def test_a_dead_letter_is_logged_with_its_topic_and_reason(
    broker: Broker, caplog: pytest.LogCaptureFixture, anyio_backend: str
) -> None:
    worker = Worker(broker.bootstrap, group="g", dead_letters="dead")

    @worker.handler("orders")
    async def ship(delivery: Delivery) -> None:
        delivery.reject("the customer is blocked")

    broker.produce("orders", [b"1"], partition=1)
    async with running(worker):
        await until(lambda: worker.runners[0].counts.dead == 1)
    assert logged(caplog, "dead letters in dead: the customer is blocked") == [COORDINATES]
