"""What /status says about a running worker, and what it doesn't."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import anyio
import pytest

from kshare.testing import Broker
from kshare.worker import Delivery, Worker
from kshare.worker.watch.status import MOST_RUNS, SCHEMA
from tests.helpers.running_worker import from_the_start, get, running, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    from_the_start(kshare_broker)
    return kshare_broker


async def status_of(worker: Worker) -> Any:
    status, page = await get(worker.http_port, "/status")
    assert status == 200
    return json.loads(page)


@pytest.mark.lengthy
async def test_who_it_is_and_what_it_may_do(broker: Broker, anyio_backend: str) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0", client_id="shop")

    @worker.handler("orders", concurrency=7)
    async def ship(value: bytes) -> None: ...

    async with running(worker):
        page = await status_of(worker)
        again = await status_of(worker)
    assert (page["schema"], page["pid"], page["client_id"]) == (SCHEMA, os.getpid(), "shop")
    assert (page["state"], page["reason"]) == ("running", "")
    assert page["id"] == again["id"]
    (handler,) = page["handlers"]
    assert (handler["handler"], handler["group"], handler["topics"]) == ("ship", "g", ["orders"])
    assert (handler["concurrency"], handler["attempts"], handler["time_limit"]) == (7, 5, 300)
    assert (handler["lock_s"], handler["breaker"], handler["runs"], handler["run_count"]) == (
        30,
        "closed",
        [],
        0,
    )


@pytest.mark.lengthy
async def test_the_longest_runs_are_shown(broker: Broker, anyio_backend: str) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0", concurrency=60)
    may_end = anyio.Event()

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        await may_end.wait()

    broker.produce("orders", [b"secret value"])
    async with running(worker):
        await until(lambda: worker.health().handlers[0].running == 1)
        seconds = 0.0
        while seconds < 0.3:  # only then it's the longest, for sure
            (run,) = (await status_of(worker))["handlers"][0]["runs"]
            seconds = run.pop("seconds")
        assert run == {
            "topic": "orders",
            "partition": 0,
            "offset": 0,
            "records": 1,
            "delivery_count": 1,
            "attempt": 1,
            "state": "running",
        }
        broker.produce("orders", [b"secret value"] * 59)
        await until(lambda: worker.health().handlers[0].running == 60)
        _, text = await get(worker.http_port, "/status")
        assert "secret" not in text
        (handler,) = json.loads(text)["handlers"]
        assert (len(handler["runs"]), handler["run_count"]) == (MOST_RUNS, 60)
        assert handler["runs"][0]["offset"] == 0
        may_end.set()


@pytest.mark.lengthy
async def test_a_batch_is_one_run(broker: Broker, anyio_backend: str) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0")
    may_end = anyio.Event()

    @worker.batch_handler("orders", batch_size=3, batch_wait=30.0)
    async def ship(values: list[bytes]) -> None:
        await may_end.wait()

    broker.produce("orders", [b"1", b"2", b"3", b"4"])
    async with running(worker):
        await until(lambda: worker.health().handlers[0].running == 4)
        page = await status_of(worker)
        may_end.set()
        worker.stop()
    runs = page["handlers"][0]["runs"]
    assert sorted((run["offset"], run["records"], run["state"]) for run in runs) == [
        (0, 3, "running"),
        (3, 1, "collecting"),
    ]


@pytest.mark.lengthy
async def test_runs_that_wait_for_a_thread_and_runs_that_were_cancelled(
    broker: Broker, anyio_backend: str
) -> None:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0", concurrency=1, time_limit=0.2)
    may_end = threading.Event()

    @worker.handler("orders")
    def ship(delivery: Delivery) -> None:
        may_end.wait(30)

    async def state() -> str:
        runs = (await status_of(worker))["handlers"][0]["runs"]
        return runs[0]["state"] if runs else ""

    broker.produce("orders", [b"1"])
    async with running(worker):
        with anyio.fail_after(20):
            while await state() != "waiting":  # the thread still runs the first attempt
                await anyio.sleep(0.01)
        may_end.set()
