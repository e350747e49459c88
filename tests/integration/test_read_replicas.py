"""Kafka with a rack-aware replica selector: records are read from the follower in the reader's rack."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kshare import Producer
from kshare.admin.log_reading import LogReader
from kshare.admin.read_replicas import LogPartition
from kshare.admin.routing import Router
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.messages import FetchRequest
from tests.integration.conftest import StartCluster

RACKS = ("west", "east", "south")
EAST = 2
"""The node in rack east."""
PARTITIONS, RECORDS = 3, 300


class WatchedRouter(Router):
    """Remembers which brokers got fetches."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.readers: list[int | None] = []

    async def ask(self, node: int | None, request: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(request, FetchRequest):
            self.readers.append(node)
        return await super().ask(node, request, *arguments, **options)


async def read(reader: LogReader, where: LogPartition) -> list[int]:
    offsets = []
    async for batch in reader.batches(where, 0, RECORDS):
        offsets += [record.offset for record in batch.records()]
    return offsets


@pytest.mark.anyio
@pytest.mark.java
@pytest.mark.kafka
@pytest.mark.lengthy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_followers_in_the_rack_are_read_and_leaders_if_they_die(start_cluster: StartCluster) -> None:
    cluster = start_cluster("4.3.1", nodes=3, racks=RACKS)
    cluster.create_topic("orders", PARTITIONS)
    async with Producer(cluster.bootstrap) as producer:
        for number in range(PARTITIONS * RECORDS):
            await producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
    async with Pool(NetSettings.parse(cluster.bootstrap, client_id="reader")) as pool:
        router = WatchedRouter(pool, 60.0)
        (topic,) = (await router.metadata(["orders"])).topics
        leaders = {row.leader_id for row in topic.partitions}
        reader = LogReader(router, try_s=5.0, rack="east")
        places = [(topic.topic_id, number) for number in range(PARTITIONS)]
        for where in places:
            assert await read(reader, where) == [*range(RECORDS)]
        assert router.readers.count(EAST) >= PARTITIONS
        assert set(router.readers) == {EAST, *leaders}, "leaders are asked first"
        cluster.nodes[EAST - 1].kill()
        with anyio.fail_after(60):
            for where in places:
                assert await read(reader, where) == [*range(RECORDS)]
        assert router.readers[-1] != EAST
