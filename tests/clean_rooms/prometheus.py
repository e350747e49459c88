"""Metrics of a consumer and a worker for Prometheus."""

import asyncio

from prometheus_client import generate_latest

from kshare.metrics.prometheus import PrometheusObserver
from kshare.testing import Broker
from kshare.worker.prometheus import PrometheusWorkerObserver

from .shared import run_observed, start_at_the_beginning, write_and_read

with Broker(topics={"orders": 1}) as broker:
    start_at_the_beginning(broker, "readers")
    asyncio.run(write_and_read(broker.bootstrap, PrometheusObserver()))
run_observed(PrometheusWorkerObserver())
page = generate_latest().decode()
assert "kshare_fetched_records_total 1.0" in page, page
assert 'kshare_worker_processed_records_total{group="shippers"' in page, page
