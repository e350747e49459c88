"""What is known of a cluster after connecting, and when its connections end."""

from __future__ import annotations

from typing import Literal

import anyio
import pytest

from kshare.engine.reached_cluster import reached
from kshare.errors import ConnectionLost
from kshare.net.settings import NetSettings
from kshare.testing import Broker

pytestmark = pytest.mark.anyio

DEADLINE_S = 20.0


@pytest.mark.parametrize(("release", "renews"), [("4.1", False), ("4.3", True)])
async def test_renewals_need_both_brokers_and_the_members_option(
    release: Literal["4.1", "4.3"], renews: bool
) -> None:
    async with Broker(release=release) as broker:
        with anyio.fail_after(DEADLINE_S):
            async with reached(NetSettings.parse(broker.bootstrap)) as cluster:
                assert cluster.renews is renews
                assert cluster.lease_timers().can_renew is renews
                assert not cluster.lease_timers(renews=False).can_renew


async def test_connections_close_with_the_block() -> None:
    async with Broker() as broker:
        with anyio.fail_after(DEADLINE_S):
            async with reached(NetSettings.parse(broker.bootstrap)) as cluster:
                connection = await cluster.pool.connection(None)
            assert not connection.is_open
            with pytest.raises(ConnectionLost):
                await cluster.pool.connection(None)
