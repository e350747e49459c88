"""The connection pool with real brokers of every release: versions, choice of node, connections that brokers close."""

from __future__ import annotations

import pytest

from kshare.errors import ConnectionLost
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.net.share_groups import require_share_groups
from kshare.protocol.messages import FindCoordinatorRequest, MetadataRequest, ShareFetchRequest
from tools.kafka.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.anyio]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_every_release(kafka: Cluster) -> None:
    async with Pool(NetSettings.parse(kafka.bootstrap)) as pool:
        metadata = await pool.ask(None, MetadataRequest([]))
        pool.learn({broker.node_id: (broker.host, broker.port, broker.rack) for broker in metadata.brokers})
        connection = await pool.connection(metadata.brokers[0].node_id, purpose="fetch")
        require_share_groups(connection)
        assert connection.version_for(ShareFetchRequest) == (1 if kafka.release.startswith("4.1") else 2)
        response = await pool.ask(
            metadata.brokers[0].node_id, FindCoordinatorRequest(coordinator_keys=["group"])
        )
        assert len(response.coordinators) == 1


async def test_a_request_too_large_for_the_broker(kafka: Cluster) -> None:
    """The broker closes the connection. The next request uses a new one."""
    async with Pool(NetSettings.parse(kafka.bootstrap)) as pool:
        large = FindCoordinatorRequest(coordinator_keys=["x" * 32_000] * 4_000)
        with pytest.raises(ConnectionLost):
            await pool.ask(None, large)
        assert (await pool.ask(None, MetadataRequest([]))).brokers
