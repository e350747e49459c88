"""Searches of a topic: where they pause and continue, and what damaged batches cost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from kshare.admin.record_search import LogPosition, RecordSearch, SearchLimits, search_records
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.compression import Compression
from kshare.protocol.record_builder import BatchBuilder
from kshare.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def router(kshare_broker: Broker) -> AsyncIterator[Router]:
    host, _, port = kshare_broker.bootstrap.rpartition(":")
    async with Pool(NetSettings(bootstrap=((host, int(port)),))) as pool:
        await pool.bootstrap()
        yield Router(pool, 10.0)


async def search(
    router: Router,
    spans: dict[int, tuple[int, int]],
    text: bytes = b"",
    limits: SearchLimits | None = None,
) -> RecordSearch:
    return await search_records(
        router,
        "orders",
        spans,
        lambda _, record: text in bytes(record.value or b""),
        limits or SearchLimits(),
    )


def places(found: RecordSearch) -> list[tuple[int, int]]:
    return [(hit.partition, hit.record.offset) for hit in found.found]


async def test_a_search_pauses_and_continues_in_the_middle_of_a_batch(
    router: Router, kshare_broker: Broker
) -> None:
    kshare_broker.create_topic("orders", 2)
    for partition in range(2):
        kshare_broker.produce("orders", [b"%d" % number for number in range(5)], partition=partition)
    limits = SearchLimits(found=3)
    first = await search(router, {0: (0, 5), 1: (1, 4)}, limits=limits)
    assert (places(first), first.at) == ([(0, 0), (0, 1), (0, 2)], LogPosition(0, 3))
    second = await search(router, {0: (3, 5), 1: (1, 4)}, limits=limits)
    assert (places(second), second.at) == ([(0, 3), (0, 4), (1, 1)], LogPosition(1, 2))
    third = await search(router, {1: (2, 4)}, limits=limits)
    assert (places(third), third.at) == ([(1, 2), (1, 3)], None)


@pytest.mark.parametrize(
    "limits", [SearchLimits(records=10), SearchLimits(bytes=1)], ids=["records", "bytes"]
)
async def test_a_search_that_finds_nothing_pauses(
    router: Router, kshare_broker: Broker, limits: SearchLimits
) -> None:
    kshare_broker.create_topic("orders")
    for _ in range(3):
        kshare_broker.produce("orders", [b"x"] * 10)
    found = await search(router, {0: (0, 30)}, b"needle", limits)
    assert (found.found, found.at, found.records) == ([], LogPosition(0, 10), 10)


async def test_records_that_are_gone_are_reported(router: Router, kshare_broker: Broker) -> None:
    kshare_broker.create_topic("orders", 2)
    kshare_broker.produce("orders", [b"x"], partition=1)
    found = await search(router, {0: (5, 9), 1: (0, 1)})
    assert places(found) == [(1, 0)]
    assert found.problems == ["orders[0]: its log has no offset 5: it was removed, or it isn't written yet"]


async def test_a_damaged_batch_is_left_out(router: Router, kshare_broker: Broker) -> None:
    kshare_broker.create_topic("orders")
    kshare_broker.produce("orders", [b"a", b"b"])

    def damage() -> None:
        """Write the batch again, with another last byte, as a bad disk might have it."""
        log = kshare_broker.state.cluster.partition("orders", 0).log
        stored = next(iter(log.batches_from(0)))
        data = (2).to_bytes(8, "big") + stored.data[8:-1] + bytes([stored.data[-1] ^ 1])
        log.restore(replace(stored, base_offset=2, last_offset=3, data=data))

    kshare_broker.call(damage)
    kshare_broker.produce("orders", [b"c", b"d"])
    found = await search(router, {0: (0, 6)})
    assert places(found) == [(0, 0), (0, 1), (0, 4), (0, 5)]
    assert found.at is None
    (problem,) = found.problems
    assert problem.startswith("orders[0]: offsets 2..3 can't be read: batch at partition offset 2")


@pytest.mark.lengthy
async def test_a_batch_that_would_take_too_much_memory_is_left_out(
    router: Router, kshare_broker: Broker
) -> None:
    kshare_broker.create_topic("orders")

    def write() -> None:
        partition, now = kshare_broker.state.cluster.partition("orders", 0), kshare_broker.state.clock.now()
        for value in (b"\0" * (40 << 20), b"small"):
            batch = BatchBuilder(compression=Compression.GZIP)
            batch.append(value, timestamp=now)
            partition.log.append(batch.build(), now=now, leader_epoch=0)

    kshare_broker.call(write)
    found = await search(router, {0: (0, 2)})
    assert places(found) == [(0, 1)]
    assert "offsets 0 can't be read" in found.problems[0]
