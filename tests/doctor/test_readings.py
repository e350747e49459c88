"""A group that nobody has read for a while, and whose records a member takes now: it hasn't stalled."""

from __future__ import annotations

import threading
import time

import anyio
import pytest

from kshare import sync
from kshare.admin.routing import Router
from kshare.doctor.readings import Readings, take_readings
from kshare.monitor.stalls import MembersSince, stalled_for
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.testing import Broker

GROUP = "shippers"
LONG_S = 2.0
"""Instead of half a minute."""


@pytest.fixture
def broker(kshare_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """With five records that wait since longer than a stall takes, and no members."""
    monkeypatch.setattr("kshare.monitor.stalls.LONG_S", LONG_S)
    monkeypatch.setattr("kshare.doctor.readings.BETWEEN_S", 0.2)
    kshare_broker.create_topic("orders")
    kshare_broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
    kshare_broker.produce("orders", [b"x"])
    with consumer(kshare_broker) as first:
        settle(first, 20.0)
    kshare_broker.produce("orders", [b"x"] * 5)
    time.sleep(LONG_S + 0.5)
    return kshare_broker


def consumer(broker: Broker) -> sync.ShareConsumer:
    return sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit")


def settle(consumer: sync.ShareConsumer, wait_s: float, hold_s: float = 0.0) -> None:
    batch = consumer.next_batch(wait_s)
    assert batch is not None
    time.sleep(hold_s)
    for record in batch:
        record.accept()
    consumer.commit()


def stalls(broker: Broker, members_since: MembersSince | None = None) -> list[float]:
    """For how long what doctor finds has stalled."""

    async def read() -> Readings:
        async with Pool(NetSettings.parse(broker.bootstrap)) as pool:
            with anyio.fail_after(60):
                return await take_readings(Router(pool, 10), (GROUP,), members_since)

    found = anyio.run(read)
    quiet = (
        stalled_for(found.earlier(partition), partition, found.now.time)
        for group in found.now.groups
        for partition in group.partitions
    )
    return [place for place in quiet if place is not None]


@pytest.mark.lengthy
def test_a_member_that_is_slow_has_not_stalled(broker: Broker) -> None:
    with consumer(broker) as slow:
        worker = threading.Thread(target=settle, args=(slow, 20.0, LONG_S / 2))
        worker.start()
        assert stalls(broker) == []
        worker.join(20)


@pytest.mark.lengthy
def test_a_member_that_settles_nothing_is_found_all_the_same(broker: Broker) -> None:
    idle_since = time.time()
    with consumer(broker) as holder:
        assert holder.next_batch(20.0) is not None
        (quiet,) = stalls(broker)
    assert LONG_S < quiet < time.time() - idle_since


@pytest.mark.lengthy
def test_who_looks_again_and_again_does_not_wait(broker: Broker) -> None:
    """As the console does: its checks are repeated, and its readings tell when a member joined."""
    members_since = MembersSince()
    with consumer(broker) as holder:
        assert holder.next_batch(20.0) is not None
        assert stalls(broker, members_since) == []
        time.sleep(LONG_S)
        (quiet,) = stalls(broker, members_since)
    assert quiet > LONG_S
