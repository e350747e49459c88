"""One of three real brokers freezes permanently: the others take over its partitions."""

from __future__ import annotations

import anyio
import pytest

from tests.integration.behaviour.work_queue import DEADLINE_S, WorkQueue, in_thread, take
from tests.integration.conftest import StartCluster
from tools.kafka import requests
from tools.kafka.jars import NEWEST_RELEASE

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_consuming_continues_when_a_broker_freezes_permanently(start_cluster: StartCluster) -> None:
    cluster = await in_thread(start_cluster, NEWEST_RELEASE, 3)
    queue = WorkQueue(cluster, "work", "workers")
    await queue.create_topic(partitions=3)
    await queue.configure_group({"share.auto.offset.reset": "earliest"})
    await queue.produce(30)
    # The rest is bounded by these two, and by how long the controller waits for a missing broker (4 s).
    short = {"request_timeout": 3.0, "connect_timeout": 1.0}
    async with queue.consumer(close_timeout=5.0, **short) as source:
        assert {record.partition for record in await take(source, 30)} == {0, 1, 2}
        await source.commit()
        frozen, awake = cluster.nodes[0], cluster.nodes[1]
        await in_thread(frozen.pause)
        with anyio.fail_after(DEADLINE_S):
            while frozen.id in await in_thread(requests.known_nodes, awake.address()):
                await anyio.sleep(0.1)
        cluster.nodes.remove(frozen)  # so that producers don't bootstrap from it
        try:
            await queue.produce(30)
        finally:
            cluster.nodes.insert(0, frozen)
        again = {record.partition for record in await take(source, 30)}
        assert again == {0, 1, 2}, "not all partitions of the frozen broker are fetched from another one"
