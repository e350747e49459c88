"""Metrics of a consumer and a worker for Prometheus."""

import asyncio

from prometheus_client import generate_latest

from kshare import ShareConsumer
from kshare.metrics.prometheus import PrometheusObserver
from kshare.testing import Broker, run_worker
from kshare.worker import Worker
from kshare.worker.prometheus import PrometheusWorkerObserver

worker = Worker("kafka.example:9092", group="shippers")
worker.observe(PrometheusWorkerObserver())


@worker.handler("orders")
def ship(order: str) -> None:
    assert order == "tea"


async def main(bootstrap: str) -> None:
    async with ShareConsumer(
        bootstrap, group="readers", topics=["orders"], observer=PrometheusObserver()
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
page = generate_latest().decode()
assert "kshare_fetched_records_total 1.0" in page, page
assert 'kshare_worker_processed_records_total{group="shippers"' in page, page
