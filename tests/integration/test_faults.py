"""What goes wrong in real clusters: every produced record reaches the user and is settled, whatever is killed."""

from __future__ import annotations

import logging
from collections import Counter

import anyio
import pytest

from kshare import ShareConsumer
from tests.integration.conftest import StartCluster
from tests.integration.test_consumer import produce
from tools.kafka.cluster import Cluster
from tools.kafka.jars import NEWEST_RELEASE

pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.anyio]

DEADLINE_S = 150.0
COUNT = 1500
GROUP = {"share.auto.offset.reset": "earliest"}


class Work:
    """Accepts whatever comes, a little slowly; counts how often each record reached the user."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.seen: Counter[bytes | None] = Counter()

    async def run(self) -> None:
        source = ShareConsumer(self.cluster.bootstrap, group="g", topics=["t"], max_records=100)
        async with source as consumer:
            async for record in consumer:
                self.seen[record.value] += 1
                await anyio.sleep(0.001)
                if len(self.seen) == COUNT:
                    record.accept()
                    await consumer.commit()
                    return

    async def has_seen(self, count: int) -> None:
        while len(self.seen) < count:
            await anyio.sleep(0.01)


async def nothing_is_left(cluster: Cluster) -> bool:
    """A second member of the group finds the queue empty."""
    async with ShareConsumer(cluster.bootstrap, group="g", topics=["t"]) as consumer:
        with anyio.move_on_after(3):
            async for _ in consumer:
                return False
    return True


async def test_a_broker_that_is_killed_and_comes_back(
    start_cluster: StartCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kshare.client")
    cluster = await anyio.to_thread.run_sync(start_cluster, NEWEST_RELEASE)
    cluster.create_topic("t", 2)
    cluster.set_group_config("g", GROUP)
    await anyio.to_thread.run_sync(produce, cluster, "t", COUNT)
    work = Work(cluster)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work.run)
            for part in (300, 900):
                await work.has_seen(part)
                node = cluster.nodes[0]
                node.kill()
                await anyio.to_thread.run_sync(cluster.restart, node)
        assert await nothing_is_left(cluster)
    assert set(work.seen) == {b"%d" % number for number in range(COUNT)}
    # Twice for the user is only what was in hand, not yet accepted, when a session ended: one record each.
    sessions_lost = sum("is over" in line for line in caplog.messages)
    assert 2 <= sessions_lost
    assert sum(work.seen.values()) - COUNT <= sessions_lost


async def test_a_leader_that_is_killed_among_three(start_cluster: StartCluster) -> None:
    cluster = await anyio.to_thread.run_sync(start_cluster, NEWEST_RELEASE, 3)
    cluster.create_topic("t", 3)
    cluster.set_group_config("g", GROUP)
    await anyio.to_thread.run_sync(produce, cluster, "t", COUNT)
    work = Work(cluster)
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work.run)
            for number, node in enumerate(cluster.nodes):
                await work.has_seen(300 * (number + 1))
                node.kill()
                await anyio.to_thread.run_sync(cluster.restart, node)
        assert await nothing_is_left(cluster)
    assert set(work.seen) == {b"%d" % number for number in range(COUNT)}
