"""Metrics in the real Prometheus package, from workers on the embedded broker."""

from __future__ import annotations

import anyio
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kshare.testing import Broker
from kshare.worker import Retry, Worker
from kshare.worker.prometheus import PrometheusWorkerObserver
from tests.helpers.running_worker import from_the_start, get, running, until

pytestmark = pytest.mark.anyio

HANDLER = {"group": "g", "handler": "ship"}
TOPIC = {**HANDLER, "topic": "orders"}


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    from_the_start(kshare_broker)
    return kshare_broker


@pytest.mark.lengthy
async def test_counters_histograms_and_gauges(broker: Broker, anyio_backend: str) -> None:
    registry = CollectorRegistry()
    value = registry.get_sample_value
    worker = Worker(broker.bootstrap, group="g", retry=Retry(attempts=2, delay=30), concurrency=2)
    worker.observe(PrometheusWorkerObserver(registry))
    may_end = anyio.Event()

    @worker.handler("orders")
    async def ship(value: str) -> None:
        if value == "bad":
            raise ValueError
        if value == "long":
            await may_end.wait()

    assert value("kshare_worker_ready") is None
    broker.produce("orders", [b"good", b"bad", b"long"])
    async with running(worker):
        await until(lambda: (worker.health().handlers[0].held, worker.health().handlers[0].running) == (1, 1))
        assert value("kshare_worker_ready") == 1
        assert value("kshare_worker_held_records", HANDLER) == 1
        assert value("kshare_worker_running_records", HANDLER) == 1
        assert value("kshare_worker_ready_records", HANDLER) == 0
        assert value("kshare_worker_breaker_state", HANDLER) == 0
        assert value("kshare_worker_records_total", {**TOPIC, "outcome": "lost"}) == 0
        # From another thread, as Prometheus's own server does it.
        assert b"kshare_worker_running_records{" in await anyio.to_thread.run_sync(generate_latest, registry)
        may_end.set()
        await until(lambda: worker.runners[0].counts.done == 2)
    for result, count in (("returned", 2), ("failed", 1)):
        assert value("kshare_worker_processed_records_total", {**TOPIC, "result": result}) == count
    for outcome, count in (("accepted", 2), ("held", 1), ("released", 1)):
        assert value("kshare_worker_records_total", {**TOPIC, "outcome": outcome}) == count
    assert value("kshare_worker_run_duration_seconds_count", HANDLER) == 3
    assert value("kshare_worker_held_records", HANDLER) is None


@pytest.mark.lengthy
async def test_metrics_page(broker: Broker, anyio_backend: str) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0")
    bare = Worker(broker.bootstrap, group="g", http="127.0.0.1:0")
    worker.observe(PrometheusWorkerObserver(CollectorRegistry()))
    for target in (worker, bare):

        @target.handler("orders")
        async def ship(value: str) -> None:
            pass

    async with running(worker), running(bare):
        status, page = await get(worker.http_port, "/metrics")
        assert status == 200
        assert 'kshare_worker_running_records{group="g",handler="ship"} 0.0' in page
        status, page = await get(bare.http_port, "/metrics")
        assert status == 404
        assert "PrometheusWorkerObserver()" in page
