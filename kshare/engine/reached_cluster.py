"""Connects to a cluster, and checks whether it supports share groups and the renewal of locks."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from kshare.engine.telemetry import has_telemetry
from kshare.net.connection import NetMeter
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.net.share_groups import require_share_groups
from kshare.protocol.messages import ShareAcknowledgeRequest
from kshare.state.lease_timers import LeaseTimers

_RENEWING_VERSION = 2


class ReachedCluster(NamedTuple):
    """A cluster that can be reached."""

    pool: Pool
    renews: bool
    """Whether its brokers can renew locks: since Kafka 4.2."""
    has_telemetry: bool
    """Whether its brokers take client metrics: if a plugin of theirs receives them."""

    def lease_timers(self, *, renews: bool = True, max_lease_s: float = math.inf) -> LeaseTimers:
        """The lease timers of a member. `renews`: whether it wants its locks renewed; `max_lease_s`: for how long."""
        return LeaseTimers(
            can_renew=renews and self.renews,
            max_lease_s=max_lease_s,
            no_renewal_because="renew_leases is off" if self.renews else "Kafka is older than 4.2",
        )


@asynccontextmanager
async def reached(settings: NetSettings, meter: NetMeter | None = None) -> AsyncIterator[ReachedCluster]:
    """Connect, or raise. Closes all connections at the end of the block."""
    async with Pool(settings, meter=meter) as pool:
        connection = await pool.bootstrap()
        require_share_groups(connection)
        renews = connection.version_for(ShareAcknowledgeRequest) >= _RENEWING_VERSION
        yield ReachedCluster(pool, renews, has_telemetry(connection))
