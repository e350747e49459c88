"""The sizes of logs, as the leaders of partitions report them."""

from __future__ import annotations

import pytest

from kshare.admin.log_sizes import log_sizes
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.testing import Broker

pytestmark = [pytest.mark.anyio]


async def test_sizes_by_leader(anyio_backend: str, kshare_cluster: Broker) -> None:
    kshare_cluster.create_topic("orders", 3)
    kshare_cluster.create_topic("returns")
    for partition, count in enumerate((1, 10, 0)):
        if count:
            kshare_cluster.produce("orders", [b"x" * 100] * count, partition=partition)
    wanted = {("orders", 0), ("orders", 1), ("orders", 2)}
    async with Pool(NetSettings.parse(kshare_cluster.bootstrap)) as pool:
        router = Router(pool, 10)
        found = await log_sizes(router, wanted)
        assert await log_sizes(router, []) == {}
    assert found.keys() == wanted
    assert found["orders", 2] == 0
    assert 100 < found["orders", 0] < 1000 < found["orders", 1]
