"""A consumer and a worker that report to OpenTelemetry's interface: without a provider, nothing comes of it."""

import asyncio

from kshare import ShareConsumer
from kshare.metrics.opentelemetry import OpenTelemetryObserver
from kshare.testing import Broker, run_worker
from kshare.worker import Worker
from kshare.worker.opentelemetry import OpenTelemetryWorkerObserver

worker = Worker("kafka.example:9092", group="shippers")
worker.observe(OpenTelemetryWorkerObserver())


@worker.handler("orders")
def ship(order: str) -> None:
    assert order == "tea"


async def main(bootstrap: str) -> None:
    async with ShareConsumer(
        bootstrap, group="readers", topics=["orders"], observer=OpenTelemetryObserver()
    ) as consumer:
        async for _ in consumer:
            break


with Broker(topics={"orders": 1}) as broker:
    broker.set_group_config("readers", {"share.auto.offset.reset": "earliest"})
    broker.produce("orders", [b"tea"])
    asyncio.run(main(broker.bootstrap))
with run_worker(worker) as running:
    running.produce("orders", b"tea")
    running.wait_until_settled()
assert running.counts["ship"].done == 1
