"""When the first unsettled records were written: one partition that can't be read leaves one time unknown."""

from __future__ import annotations

import pytest

from kshare import AdminClient
from kshare.admin.routing import Router
from kshare.monitor.collect import Collector
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.compression import Compression
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import FetchRequest
from kshare.testing import Broker
from tests.fakes.bombs import MIB, append, bomb, damaged

pytestmark = pytest.mark.anyio

GROUPS = ("attacked", "healthy")


async def known(broker: Broker) -> dict[str, list[bool]]:
    """Whether the time is known, for each partition of the groups, which read topics of their own names."""
    async with AdminClient(broker.bootstrap) as admin:
        for name in GROUPS:
            await admin.alter_share_group_offsets(name, {(name, 0): 0, (name, 1): 0})
    async with Pool(NetSettings.parse(broker.bootstrap)) as pool:
        found = await Collector(Router(pool, 10)).read()
    return {group.group: [row.oldest is not None for row in group.partitions] for group in found.groups}


@pytest.mark.lengthy
async def test_topics_that_may_not_be_read_have_records(kshare_broker: Broker, anyio_backend: str) -> None:
    """Otherwise a group could stand still unnoticed, only because the monitor's user lacks a right."""
    for name in GROUPS:
        kshare_broker.create_topic(name, 2)
        kshare_broker.produce(name, [b"x"])
    kshare_broker.faults.add(FetchRequest, times=99, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with AdminClient(kshare_broker.bootstrap) as admin:
        await admin.alter_share_group_offsets("healthy", {("healthy", 0): 0})
    async with Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool:
        ((row,),) = [group.partitions for group in (await Collector(Router(pool, 10)).read()).groups]
    assert (row.oldest, row.has_records) == (None, True)


@pytest.mark.lengthy
@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name)
async def test_one_batch_that_cannot_be_read_costs_one_time(
    kshare_broker: Broker, anyio_backend: str, codec: Compression
) -> None:
    batch = bomb(160 * MIB, codec) if codec else damaged()
    for name in GROUPS:
        kshare_broker.create_topic(name, 2)
        kshare_broker.produce(name, [b"x"], partition=1)
    append(kshare_broker, "attacked", batch)
    kshare_broker.produce("healthy", [b"x"])
    assert await known(kshare_broker) == {"attacked": [False, True], "healthy": [True, True]}


@pytest.mark.lengthy
async def test_batches_that_become_much_do_not_starve_the_others(
    kshare_broker: Broker, anyio_backend: str
) -> None:
    """Their groups, which come first, go on to the next batch before each reading. Each of them is read in turn."""
    count, readings = 8, 6
    kshare_broker.create_topic("attacked", count)
    kshare_broker.create_topic("healthy", 2)
    large = bomb(15 * MIB)
    for partition in range(count):
        for _ in range(readings):
            append(kshare_broker, "attacked", large, partition)
    for partition, compression in enumerate((Compression.NONE, Compression.GZIP)):
        for _ in range(readings):
            append(kshare_broker, "healthy", bomb(1000, compression), partition)
    read: set[int] = set()
    async with (
        AdminClient(kshare_broker.bootstrap) as admin,
        Pool(NetSettings.parse(kshare_broker.bootstrap)) as pool,
    ):
        await pool.bootstrap()
        collector = Collector(Router(pool, 10))
        for offset in range(readings):
            for name, partitions in (("attacked", count), ("healthy", 2)):
                starts = {(name, number): offset for number in range(partitions)}
                await admin.alter_share_group_offsets(name, starts)
            attacked, healthy = (await collector.read()).groups
            assert [partition.oldest is not None for partition in healthy.partitions] == [True, True]
            read |= {partition.partition for partition in attacked.partitions if partition.oldest is not None}
    assert read == set(range(count))
