"""What several of the programs do."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kshare import Producer, ShareConsumer
from kshare.testing import Broker, run_worker
from kshare.worker import Worker, WorkerObserver


def start_at_the_beginning(broker: Broker, *groups: str) -> None:
    for group in groups:
        broker.set_group_config(group, {"share.auto.offset.reset": "earliest"})


async def write_and_read(bootstrap: str, observer: Callable[[Any], None] | None = None) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send("orders", b"tea")
    async with ShareConsumer(bootstrap, group="readers", topics=["orders"], observer=observer) as consumer:
        async for record in consumer:
            assert record.value == b"tea"
            break


def run_shop(bootstrap: str, *arguments: str) -> None:
    """Run the worker as a program of its own."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("shop.py"), *arguments],
        env={**os.environ, "KSHARE_BOOTSTRAP_SERVER": bootstrap},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "shipped tea" in done.stdout, (done.stdout, done.stderr)


def run_observed(observer: WorkerObserver) -> None:
    """Run a worker until it has processed a record."""
    worker = Worker("kafka.example:9092", group="shippers")
    worker.observe(observer)
    shipped: list[str] = []

    @worker.handler("orders")
    def ship(order: str) -> None:
        shipped.append(order)

    with run_worker(worker) as running:
        running.produce("orders", b"tea")
        running.wait_until_settled()
    assert shipped == ["tea"]
    assert running.counts["ship"].done == 1
