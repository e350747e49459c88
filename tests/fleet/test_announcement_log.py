"""Reading the topic of announcements: what is there, what is added, and when the topic itself comes and goes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import pytest

from kshare.admin.config import admin_settings
from kshare.admin.log_offsets import log_offsets
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.errors import BrokerError
from kshare.fleet import announcement_log
from kshare.fleet.announcement_log import AnnouncementLog
from kshare.fleet.announcements import REMEMBERED_S
from kshare.net.pool import Pool
from kshare.testing import Broker
from kshare.worker.watch.announcement import Announcement, announcement_value
from kshare.worker.watch.process_identity import identify_process
from kshare.worker.watch.status_url import StatusUrl

pytestmark = pytest.mark.anyio

TOPIC = "kshare-workers"


@asynccontextmanager
async def reading(
    broker: Broker, wall_clock: Callable[[], float] = time.time
) -> AsyncIterator[AnnouncementLog]:
    settings = admin_settings(broker.bootstrap, {})
    async with Pool(settings) as pool:
        await pool.bootstrap()
        yield AnnouncementLog(Router(pool, settings.request_timeout), TOPIC, wall_clock)


def announce(broker: Broker, host: str) -> Announcement:
    one = Announcement(
        identity=identify_process("shop"), url=StatusUrl("http", host, 8080), handlers=(), interval_s=60.0
    )
    broker.produce(TOPIC, [announcement_value(one)], key=one.identity.id.encode())
    return one


def hosts(log: AnnouncementLog) -> list[str]:
    return sorted(process.announcement.url.host for process in log.known())


async def test_what_is_there_and_what_is_added(kshare_broker: Broker, anyio_backend: str) -> None:
    kshare_broker.create_topic(TOPIC, settings={"cleanup.policy": "compact"})
    first = announce(kshare_broker, "shop-1")
    async with reading(kshare_broker) as log:
        await log.refresh()
        assert hosts(log) == ["shop-1"]
        announce(kshare_broker, "shop-2")
        kshare_broker.produce(TOPIC, [None], key=first.identity.id.encode())
        kshare_broker.produce(TOPIC, [b"garbage"], key=b"x")
        await log.refresh()
        await log.refresh()
        assert hosts(log) == ["shop-2"]
        assert log.unreadable == f"topic {TOPIC}: 1 record isn't an announcement of workers: it isn't JSON"


async def test_an_empty_topic(kshare_broker: Broker, anyio_backend: str) -> None:
    kshare_broker.create_topic(TOPIC)
    async with reading(kshare_broker) as log:
        await log.refresh()
        assert (hosts(log), log.unreadable) == ([], "")


async def test_what_is_old_is_not_read(kshare_broker: Broker, anyio_backend: str) -> None:
    kshare_broker.create_topic(TOPIC)
    announce(kshare_broker, "shop-1")
    kshare_broker.produce(TOPIC, [b"garbage"], key=b"x")
    async with reading(kshare_broker, lambda: time.time() + REMEMBERED_S + 60) as log:
        await log.refresh()
        assert (hosts(log), log.unreadable) == ([], "")
        announce(kshare_broker, "shop-2")
        await log.refresh()
        assert hosts(log) == []  # by this clock, it is as old


async def test_a_topic_that_comes_later_and_is_created_again(
    kshare_broker: Broker, anyio_backend: str
) -> None:
    async with reading(kshare_broker) as log:
        with pytest.raises(BrokerError, match=TOPIC):
            await log.refresh()
        kshare_broker.create_topic(TOPIC)
        announce(kshare_broker, "shop-1")
        announce(kshare_broker, "shop-2")
        await log.refresh()
        assert hosts(log) == ["shop-1", "shop-2"]
        kshare_broker.delete_topic(TOPIC)
        with pytest.raises(BrokerError):
            await log.refresh()
        assert hosts(log) == []
        kshare_broker.create_topic(TOPIC)
        announce(kshare_broker, "shop-3")
        await log.refresh()
        assert hosts(log) == ["shop-3"]


async def test_a_shorter_topic_of_the_same_name(kshare_broker: Broker, anyio_backend: str) -> None:
    kshare_broker.create_topic(TOPIC)
    announce(kshare_broker, "shop-1")
    announce(kshare_broker, "shop-2")
    async with reading(kshare_broker) as log:
        await log.refresh()
        kshare_broker.delete_topic(TOPIC)
        kshare_broker.create_topic(TOPIC)
        announce(kshare_broker, "shop-3")
        await log.refresh()
        assert hosts(log) == ["shop-3"]


async def test_a_topic_that_was_created_again_unnoticed(kshare_broker: Broker, anyio_backend: str) -> None:
    kshare_broker.create_topic(TOPIC)
    announce(kshare_broker, "shop-1")
    async with reading(kshare_broker) as log:
        await log.refresh()
        kshare_broker.delete_topic(TOPIC)
        kshare_broker.create_topic(TOPIC)
        announce(kshare_broker, "shop-2")
        announce(kshare_broker, "shop-3")
        with pytest.raises(BrokerError):
            await log.refresh()
        await log.refresh()
        assert hosts(log) == ["shop-2", "shop-3"]


async def test_what_is_announced_while_the_topic_is_found_empty(
    kshare_broker: Broker, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kshare_broker.create_topic(TOPIC)

    async def ask(router: Router, where: Collection[TopicPartition], time: int) -> dict[TopicPartition, int]:
        found = await log_offsets(router, where, time)
        if time >= 0:
            assert set(found.values()) == {-1}
            announce(kshare_broker, "shop-1")
        return found

    monkeypatch.setattr(announcement_log, "log_offsets", ask)
    async with reading(kshare_broker) as log:
        await log.refresh()
        await log.refresh()
        assert hosts(log) == ["shop-1"]
