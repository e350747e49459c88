"""While the breaker of a handler is open, records that haven't failed are acquired to probe with."""

from __future__ import annotations

import pytest

from kshare.testing import Broker
from kshare.worker import Breaker, Delivery, Retry, Worker
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = [pytest.mark.anyio, pytest.mark.lengthy]


@pytest.mark.parametrize("batch_size", [0, 5])
async def test_new_records_are_tried_though_an_old_one_has_closed_the_breaker_before(
    batch_size: int, kshare_broker: Broker
) -> None:
    """The first time that it was open, no new record came. The next time, none was acquired any more: one record that
    always failed stopped the handler for good."""
    from_the_start(kshare_broker)
    kshare_broker.create_topic("t")
    worker = Worker(
        kshare_broker.bootstrap,
        group="g",
        concurrency=1,
        breaker=Breaker(min_failures=1, probe_after=0.05),
        retry=Retry(attempts=3, delay=0.01),
    )
    tried: list[bytes | None] = []
    done: list[bytes | None] = []

    async def process(delivery: Delivery) -> None:
        tried.append(delivery.value)
        if delivery.value == b"bad" or (tried.count(delivery.value) < 3 and delivery.value == b"later"):
            raise ValueError(delivery.value)
        done.append(delivery.value)

    if batch_size:

        @worker.batch_handler("t", batch_size=1)
        async def process_all(deliveries: list[Delivery]) -> None:
            await process(deliveries[0])

    else:
        worker.handler("t")(process)

    kshare_broker.produce("t", [b"later", b"bad"])
    async with running(worker):
        await until(lambda: done == [b"later"])
        before = len(tried)
        await until(lambda: len(tried) > before + 3)  # the breaker is open again
        kshare_broker.produce("t", [b"good"])
        await until(lambda: b"good" in done)
