"""How many records a share-partition may have in flight: the group's config, or the brokers'."""

from __future__ import annotations

from dataclasses import replace

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.results import PartitionProgress
from kshare.admin.routing import Router
from kshare.errors import BrokerError

OF_GROUP, OF_BROKERS = "share.partition.max.record.locks", "group.share.partition.max.record.locks"
"""Groups have a setting of their own since Kafka 4.3."""
USUAL_LIMIT = 2000
"""Kafka's default."""


class WindowLimits:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._of_brokers: int | None = None

    async def fill_in(self, group: str, found: list[PartitionProgress]) -> list[PartitionProgress]:
        """Asked for where it matters: something is in flight, and more waits behind."""
        if not any(one.window_span and one.waiting for one in found):
            return found
        limit = await self.of(group)
        return [replace(one, window_limit=limit) for one in found]

    async def of(self, group: str) -> int:
        """Kafka's default if we may not read the config."""
        try:
            return await self._of_group(group) or await self._brokers()
        except BrokerError:
            return self._of_brokers or USUAL_LIMIT

    async def _of_group(self, group: str) -> int | None:
        found = await configs.describe(self._router, ConfigResource.GROUP, group, keys=[OF_GROUP])
        return next((int(one.value) for one in found if one.name == OF_GROUP and one.value), None)

    async def _brokers(self) -> int:
        """Every broker is meant to have the same, so one is asked, once."""
        if self._of_brokers is None:
            node = (await self._router.metadata([])).brokers[0].node_id
            found = await configs.describe(
                self._router, ConfigResource.BROKER, str(node), node=node, keys=[OF_BROKERS]
            )
            self._of_brokers = next(
                (int(one.value) for one in found if one.name == OF_BROKERS and one.value), USUAL_LIMIT
            )
        return self._of_brokers
