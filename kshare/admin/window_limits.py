"""The maximum size of a share-partition's in-flight window, from the group's or the brokers' configuration."""

from __future__ import annotations

from dataclasses import replace

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.results import PartitionProgress
from kshare.admin.routing import Router
from kshare.errors import BrokerError

OF_GROUP, OF_BROKERS = "share.partition.max.record.locks", "group.share.partition.max.record.locks"
"""Groups have their own setting since Kafka 4.3."""
USUAL_LIMIT = 2000
"""Kafka's default."""


def larger_limit(span: int, limit: int) -> int:
    """A limit that leaves room for another window behind the offsets in flight: 192 is rounded up to 200."""
    least = span + limit
    step = int(10 ** max(0, len(str(least)) - 2))
    return -(-least // step) * step


class WindowLimits:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._of_brokers: int | None = None

    async def fill_in(self, group: str, found: list[PartitionProgress]) -> list[PartitionProgress]:
        """Add the limit. It is only requested if records are in flight and others wait behind them."""
        if not any(partition.window_span and partition.waiting for partition in found):
            return found
        limit = await self.of(group)
        return [replace(partition, window_limit=limit) for partition in found]

    async def of(self, group: str) -> int:
        """The group's limit; Kafka's default if we aren't authorized to read the configuration."""
        try:
            return await self._of_group(group) or await self._brokers()
        except BrokerError:
            return self._of_brokers or USUAL_LIMIT

    async def _of_group(self, group: str) -> int | None:
        found = await configs.describe(self._router, ConfigResource.GROUP, group, keys=[OF_GROUP])
        return next((int(entry.value) for entry in found if entry.name == OF_GROUP and entry.value), None)

    async def _brokers(self) -> int:
        """Ask one broker, once: all should have the same limit."""
        if self._of_brokers is None:
            values = await configs.broker_values(self._router, [OF_BROKERS])
            self._of_brokers = int(values.get(OF_BROKERS) or USUAL_LIMIT)
        return self._of_brokers
