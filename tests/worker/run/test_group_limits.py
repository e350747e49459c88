"""Limits of a group: its own settings, the brokers', and Kafka's where nothing can be read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.errors import BrokerError
from kshare.net.pool import Pool
from kshare.protocol.error_codes import ErrorCode
from kshare.testing import Broker
from kshare.worker import Delivery, Worker
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.run import group_limits
from kshare.worker.run.group_limits import read_group_limits
from tests.helpers.running_worker import from_the_start, running, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def router(kshare_broker: Broker, anyio_backend: str) -> AsyncIterator[Router]:
    settings = admin_settings(kshare_broker.bootstrap, {"request_timeout": 20})
    async with Pool(settings) as pool:
        await pool.bootstrap()
        yield Router(pool, settings.request_timeout)


async def test_kafkas_defaults(router: Router) -> None:
    assert await read_group_limits(router, "g") == ShareLimits()


@pytest.mark.kshare_broker(
    settings={
        "group.share.record.lock.duration.ms": "20000",
        "group.share.delivery.count.limit": "7",
        "group.share.partition.max.record.locks": "500",
    }
)
async def test_settings_of_brokers(router: Router) -> None:
    assert await read_group_limits(router, "g") == ShareLimits(lock_s=20, deliveries=7, window=500)


async def test_settings_of_the_group(router: Router, kshare_broker: Broker) -> None:
    kshare_broker.set_group_config(
        "g",
        {
            "share.record.lock.duration.ms": "15000",
            "share.delivery.count.limit": "3",
            "share.partition.max.record.locks": "200",
            "errors.deadletterqueue.topic.name": "dlq.orders",
        },
    )
    found = await read_group_limits(router, "g")
    assert found == ShareLimits(lock_s=15, deliveries=3, window=200, writes_dead_letters=True)
    assert found.holdable_s == 7.5
    assert await read_group_limits(router, "other") == ShareLimits()


async def test_defaults_are_used_if_nothing_can_be_read(
    router: Router, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*args: object) -> None:
        raise BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not authorized")

    monkeypatch.setattr(group_limits, "group_config", refuse)
    assert await read_group_limits(router, "g") == ShareLimits()
    assert "group g: using Kafka's default limits, because they can't be read" in caplog.text


@pytest.mark.lengthy
async def test_limits_that_change_are_followed(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the old limit, a record would be archived in its second delivery, without a dead letter."""
    monkeypatch.setattr(group_limits, "LOOK_FOR_LIMITS_S", 0.05)
    from_the_start(kshare_broker)
    kshare_broker.create_topic("orders")
    worker = Worker(kshare_broker.bootstrap, group="g", dead_letters="dead", max_pinned=0.5)
    called: list[int] = []

    @worker.handler("orders")
    async def ship(delivery: Delivery) -> None:
        called.append(delivery.delivery_count)
        delivery.release()

    async with running(worker):
        kshare_broker.set_group_config(
            "g", {"share.delivery.count.limit": "2", "share.partition.max.record.locks": "400"}
        )
        await until(lambda: "its limits have changed" in caplog.text)
        kshare_broker.produce("orders", [b"bad"])
        await until(lambda: bool(kshare_broker.records("dead")))
    assert called == [1]
    assert "archived" not in caplog.text


@pytest.mark.lengthy
async def test_a_limit_that_was_lowered_is_known_when_the_worker_stops(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker archives what is given back then, and no line of the log named it."""
    monkeypatch.setattr(group_limits, "LOOK_FOR_LIMITS_S", 3600)
    from_the_start(kshare_broker)
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"bad"])
    hangs = anyio.Event()

    async def keep(delivery: Delivery, reason: str) -> None:
        hangs.set()
        await anyio.sleep_forever()

    worker = Worker(kshare_broker.bootstrap, group="g", dead_letters=keep, drain_timeout=0.1)

    @worker.handler("orders")
    async def ship(delivery: Delivery) -> None:
        if delivery.delivery_count < 2:
            delivery.release()
        else:
            delivery.reject("bad")

    async with running(worker):
        with anyio.fail_after(30):
            await hangs.wait()
        kshare_broker.set_group_config("g", {"share.delivery.count.limit": "2"})
    assert "its limits have changed" in caplog.text
    assert "archived by the broker without a copy" in caplog.text
    assert "orders[0] (offset 0)" in caplog.text


@pytest.mark.lengthy
@pytest.mark.parametrize("moment", ["while handlers may end", "while they are cancelled"])
async def test_a_limit_that_is_lowered_while_the_worker_stops_is_known_before_records_are_given_back(
    kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, moment: str
) -> None:
    """The broker archives what is given back then, and no line of the log named it."""
    monkeypatch.setattr(group_limits, "LOOK_FOR_LIMITS_S", 3600)
    from_the_start(kshare_broker)
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"held", b"slow"])
    begun = 0
    worker = Worker(kshare_broker.bootstrap, group="g", drain_timeout=1.0)

    def lower() -> None:
        kshare_broker.set_group_config("g", {"share.delivery.count.limit": "2"})

    @worker.handler("orders")
    async def ship(delivery: Delivery) -> None:
        nonlocal begun
        if delivery.delivery_count < 2:
            delivery.release()
            return
        begun += 1
        if delivery.value == b"held":
            delivery.release(delay=60)
            return
        try:
            await anyio.sleep(0.5)
            if moment == "while handlers may end":
                lower()
            await anyio.sleep_forever()
        finally:
            lower()

    async with running(worker):
        await until(lambda: begun == 2)
    last = "given back after their last delivery; the broker archives them"
    assert (
        f"orders[0] (offset 0): {last}" in caplog.text or f"orders[0] (offsets 0 to 1): {last}" in caplog.text
    )
    if moment == "while handlers may end":
        assert f"orders[0] (offset 1): {last}" in caplog.text or f"(offsets 0 to 1): {last}" in caplog.text


async def test_limits_that_cannot_be_read_for_a_while_stay_as_they_are(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_limits, "LOOK_FOR_LIMITS_S", 0.01)
    responses: list[dict[str, str]] = [{"share.delivery.count.limit": "3"}]
    asked: list[int] = []

    async def config(router: Router, group: str) -> list[Any]:
        asked.append(1)
        if len(asked) % 2:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not now")
        return [SimpleNamespace(name=name, value=value) for name, value in responses[0].items()]

    monkeypatch.setattr(group_limits, "group_config", config)
    limits = {"g": ShareLimits()}
    changed: list[str] = []
    async with anyio.create_task_group() as tasks:
        look = partial(group_limits.look_for_changes, router, changed.append, limits)
        tasks.start_soon(group_limits.watch_limits, look)
        await until(lambda: len(asked) >= 6)
        tasks.cancel_scope.cancel()
    assert (limits["g"].deliveries, changed) == (3, ["g"])


def test_records_that_nobody_has_tried_keep_two_deliveries_and_more() -> None:
    """And none of them is taken for one whose deliveries end without a result."""
    released = {
        limit: [
            count for count in range(1, limit + 1) if ShareLimits(deliveries=limit).may_be_released(count)
        ]
        for limit in (2, 3, 5, 10)
    }
    assert released == {2: [], 3: [], 5: [1], 10: [1, 2, 3]}
