"""A producer whose broker is killed and restarted: nothing is lost, doubled or reordered, in transactions neither."""

from __future__ import annotations

import anyio
import pytest

from kshare import Producer
from tests.helpers.committed import committed
from tests.helpers.releases import newest_first
from tests.integration.conftest import StartCluster
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.anyio, pytest.mark.lengthy]

COUNT = 900


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


@newest_first
async def test_killed_broker(release: str, start_cluster: StartCluster) -> None:
    cluster = await anyio.to_thread.run_sync(start_cluster, release)
    cluster.create_topic("plain", 1)
    cluster.create_topic("moved", 1)
    async with (
        Producer(cluster.bootstrap, batch_bytes=2000) as producer,
        Producer(cluster.bootstrap, transactional_id="mover", request_timeout=60) as mover,
        anyio.create_task_group() as tasks,
    ):
        for number in range(0, COUNT, 3):
            async with mover.transaction():
                sends = [await producer.enqueue("plain", b"%d" % (number + index)) for index in range(3)]
                await mover.enqueue("moved", b"%d" % number)
                if number == COUNT // 2:
                    tasks.start_soon(anyio.to_thread.run_sync, restart, cluster)
        await producer.flush()
        assert sends[-1].is_done
    assert await committed(cluster.bootstrap, "plain") == [b"%d" % number for number in range(COUNT)]
    assert await committed(cluster.bootstrap, "moved") == [b"%d" % number for number in range(0, COUNT, 3)]


def restart(cluster: Cluster) -> None:
    cluster.nodes[0].kill()
    cluster.restart(cluster.nodes[0])
