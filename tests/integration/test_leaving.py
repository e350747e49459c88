"""A consumer that closes while its coordinator stops leaves the group all the same."""

from __future__ import annotations

import anyio
import anyio.to_thread
import pytest

from kshare import AdminClient, Producer, ShareConsumer
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.protocol.messages import FindCoordinatorRequest
from tests.integration.conftest import StartCluster
from tools.kafka.cluster import Cluster
from tools.kafka.jars import NEWEST_RELEASE
from tools.kafka.node import Node

pytestmark = [pytest.mark.kafka, pytest.mark.anyio, pytest.mark.lengthy]

_GROUP, _TOPIC = "workers", "orders"
_EARLY_S = 20.0
"""Less than share.session.timeout.ms, after which the coordinator removes a silent member."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.timeout(300)
async def test_consumer_leaves_while_its_coordinator_stops(start_cluster: StartCluster) -> None:
    cluster = await anyio.to_thread.run_sync(lambda: start_cluster(NEWEST_RELEASE, nodes=3))
    cluster.create_topic(_TOPIC, 3)
    async with AdminClient(cluster.bootstrap) as admin:
        await admin.alter_group_config(_GROUP, {"share.auto.offset.reset": "earliest"})
        async with Producer(cluster.bootstrap) as producer:
            await producer.send(_TOPIC, b"first", partition=0)
        async with ShareConsumer(cluster.bootstrap, group=_GROUP, topics=[_TOPIC]) as consumer:
            with anyio.fail_after(60):
                await anext(aiter(consumer))
            stopped = await coordinator_of(cluster)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, stopped.stop)
                await anyio.sleep(0.3)
                await consumer.close()
        with anyio.fail_after(_EARLY_S):
            while (await admin.describe_share_group(_GROUP)).members:
                await anyio.sleep(0.2)


async def coordinator_of(cluster: Cluster) -> Node:
    async with Pool(NetSettings.parse(cluster.bootstrap)) as pool:
        await pool.bootstrap()
        response = await pool.ask(None, FindCoordinatorRequest(coordinator_keys=[_GROUP]))
    return next(node for node in cluster.nodes if node.id == response.coordinators[0].node_id)
