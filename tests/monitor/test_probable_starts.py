"""A group whose first members hold all that they got: brokers have stored no start offset."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import pytest

from kshare import sync
from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.monitor.collect import Collector
from kshare.monitor.figures import figures
from kshare.monitor.snapshot import PartitionReading, Snapshot
from kshare.net.pool import Pool
from kshare.testing import Broker

GROUP = "shippers"


@contextmanager
def holding(broker: Broker, reset: str) -> Iterator[None]:
    """Five records, a new member, and ten more records."""
    broker.set_group_config(GROUP, {"share.auto.offset.reset": reset})
    broker.create_topic("orders")
    broker.produce("orders", [b"x"] * 5)
    with sync.ShareConsumer(
        broker.bootstrap, group=GROUP, topics=["orders"], acknowledgement="explicit"
    ) as consumer:
        consumer.next_batch(2.0)
        broker.produce("orders", [b"x"] * 10)
        assert consumer.next_batch(20.0) is not None
        yield


def readings(broker: Broker, until: Callable[[Snapshot], bool] = lambda _: True) -> tuple[Snapshot, Snapshot]:
    """The last two of as many as are needed."""

    async def read() -> tuple[Snapshot, Snapshot]:
        settings = admin_settings(broker.bootstrap, {})
        async with Pool(settings) as pool:
            collector = Collector(Router(pool, settings.request_timeout))
            before = await collector.read()
            with anyio.fail_after(20):
                while not until(now := await collector.read()):
                    before = now
            return before, now

    return anyio.run(read)


def only(one: Snapshot) -> PartitionReading:
    ((reading,),) = [group.partitions for group in one.groups]
    return reading


def test_all_records_of_a_group_that_starts_at_the_first(kshare_broker: Broker) -> None:
    began = time.time()
    with holding(kshare_broker, "earliest"):
        before, now = readings(kshare_broker)
    found = only(now)
    assert (found.start, found.first, found.lag, found.waiting) == (None, 0, 15, 15)
    assert found.oldest is not None
    assert began - 1 < found.oldest < time.time()
    ((row,),) = figures(now, before).partitions.values()
    assert (row["lag"], row["lag_unknown"], row["deliveries"]) == (15, None, 0)
    assert isinstance(row["oldest_seconds"], float)


@pytest.mark.lengthy
def test_records_since_the_group_was_assigned_the_partition(kshare_broker: Broker) -> None:
    with holding(kshare_broker, "latest"):
        before, now = readings(kshare_broker)
    found = only(now)
    assert (found.start, found.first, found.lag, found.waiting) == (None, 5, None, 10)
    made = figures(now, before)
    ((row,),) = made.partitions.values()
    assert (row["lag"], row["oldest_seconds"]) == (None, None)
    assert made.notes == (
        f"{GROUP}  orders[0]: lag unknown: nothing was settled or released yet, and share.auto.offset.reset is latest: "
        "brokers don't tell where the group has started",
    )


@pytest.mark.lengthy
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_they_stall(kshare_broker: Broker, reset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kshare.monitor.stalls.LONG_S", 2.0)
    with holding(kshare_broker, reset):
        before, now = readings(kshare_broker, lambda one: only(one).progress is not None and _age(one) > 2.5)
    made = figures(now, before)
    ((row,),) = made.partitions.values()
    assert isinstance(row["stalled_seconds"], float)
    waiting, first = (15, 0) if reset == "earliest" else (10, 5)
    said = f"no record was ever settled or released, and {waiting} records wait from offset {first} on"
    assert any(said in note for note in made.notes)


def _age(one: Snapshot) -> float:
    """For how long at least its records have waited while it had members."""
    progress, oldest, since = only(one).progress, only(one).oldest, only(one).members_since
    if progress is None or progress.changed_at is None or oldest is None or since is None:
        return 0.0
    return one.time - max(progress.changed_at, oldest, since)
