"""A worker is announced while it runs, and works whether that succeeds or not."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest

from kshare.errors import ConfigError
from kshare.testing import Broker
from kshare.worker import Worker
from kshare.worker.watch import announcing
from kshare.worker.watch.announcing import ANNOUNCEMENT_TOPIC
from tests.helpers.running_worker import from_the_start, get, running, until

pytestmark = pytest.mark.anyio

TOPIC = "kshare-workers"


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    kshare_broker.create_topic("orders")
    from_the_start(kshare_broker)
    return kshare_broker


def a_worker(broker: Broker, **options: Any) -> Worker:
    worker = Worker(broker.bootstrap, group="g", http="127.0.0.1:0", announce=TOPIC, **options)

    @worker.handler("orders")
    async def ship(value: bytes) -> None: ...

    return worker


def announced(broker: Broker) -> list[Any]:
    """Values of all records, in order; None for tombstones."""
    return [None if record.value is None else json.loads(record.value) for record in broker.records(TOPIC)]


def is_announced(broker: Broker) -> bool:
    return broker.call(lambda: TOPIC in broker.state.cluster.topics) and bool(announced(broker))


@pytest.mark.lengthy
async def test_announced_until_it_ends(broker: Broker, anyio_backend: str) -> None:
    worker = a_worker(broker)
    async with running(worker):
        await until(lambda: is_announced(broker))
        (value,) = announced(broker)
        assert value["url"] == f"http://127.0.0.1:{worker.http_port}/status"
        assert json.loads((await get(worker.http_port, "/status"))[1])["id"] == value["id"]
    first, last = broker.records(TOPIC)
    assert (first.key, last.key, last.value) == (value["id"].encode(), value["id"].encode(), None)
    assert (
        last.timestamp >= first.timestamp >= value["started_at"] * 1000 - 1
    )  # otherwise brokers delete them at once
    settings = broker.call(lambda: broker.state.configs.topic(TOPIC, "cleanup.policy"))
    assert settings == ANNOUNCEMENT_TOPIC["cleanup.policy"]


@pytest.mark.lengthy
async def test_announced_again_and_again(
    broker: Broker, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "ANNOUNCED_EVERY_S", 0.05)
    broker.create_topic(TOPIC)  # by somebody else, and not compacted
    async with running(a_worker(broker)):
        await until(lambda: len(announced(broker)) > 3)


async def test_a_failing_start_ends_with_a_tombstone(broker: Broker, anyio_backend: str) -> None:
    worker = a_worker(broker)

    @worker.on_startup
    async def fail() -> None:
        await until(lambda: is_announced(broker))
        raise ValueError("no database")

    with pytest.raises(ValueError, match="no database"):
        await worker.serve()
    assert announced(broker)[-1] is None


@pytest.mark.lengthy
async def test_work_goes_on_where_it_cannot_be_announced(
    broker: Broker, anyio_backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kshare.worker")
    monkeypatch.setattr(announcing, "_FIRST_RETRY_S", 0.02)
    monkeypatch.setitem(announcing.ANNOUNCEMENT_TOPIC, "retention.ms", "nonsense")
    broker.produce("orders", [b"1"])
    worker = a_worker(broker)
    async with running(worker):
        await until(lambda: worker.health().handlers[0].counts.done == 1)
        await until(lambda: "couldn't announce" in caplog.text)
        monkeypatch.setitem(announcing.ANNOUNCEMENT_TOPIC, "retention.ms", "1000")
        await until(lambda: is_announced(broker))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1, warnings
    assert f"couldn't announce this worker in topic {TOPIC}" in warnings[0]
    assert f"announced in topic {TOPIC} as http://127.0.0.1:" in caplog.text


async def test_without_an_endpoint_there_is_nothing_to_announce(broker: Broker, anyio_backend: str) -> None:
    worker = a_worker(broker)
    worker.http = None
    with pytest.raises(ConfigError, match="announce needs the HTTP endpoint"):
        await worker.serve()


@pytest.mark.lengthy
async def test_stopping_does_not_wait_for_a_broker_that_is_gone(
    broker: Broker, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "_TOMBSTONE_S", 0.05)
    worker = a_worker(broker, drain_timeout=0)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            await tasks.start(worker.serve)
            await until(lambda: is_announced(broker))
            await anyio.to_thread.run_sync(broker.stop_node, 1)
            worker.stop()
            worker.stop()
    await anyio.to_thread.run_sync(broker.start_node, 1)
    assert announced(broker)[-1] is not None
