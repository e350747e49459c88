"""The limits of a share group that a worker has to know: lock duration, deliveries, size of the in-flight window."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kshare.admin.configs import broker_values, group_config
from kshare.admin.routing import Router
from kshare.errors import BrokerError

log = logging.getLogger("kshare.worker")


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """Kafka's defaults, for what we aren't authorized to read."""

    lock_s: float = 30.0
    deliveries: int = 5
    window: int = 2_000
    writes_dead_letters: bool = False
    """Whether the brokers write dead letters for the group."""

    @property
    def last_safe_delivery(self) -> int:
        """From this delivery on, a record is moved to a retry topic first, if there is one.

        If a process dies while it has a record for the last time, the broker archives the record. One that kills its
        processes may arrive together with others, and does so until it is moved itself. The others must have as many
        deliveries left as that takes.
        """
        return max(2, (self.deliveries + 1) // 2)

    @property
    def last_delivery(self) -> int:
        """Without retry topics, a record becomes a dead letter at this delivery. It isn't the very last one, which may
        end with its process, too."""
        return max(2, self.deliveries - 1)

    @property
    def holdable_s(self) -> float:
        """How long a record can be held if locks can't be renewed: part of the lock is for the handler."""
        return self.lock_s / 2

    @property
    def give_back_s(self) -> float:
        """How long before its lock expires a record that waits is given back, if locks can't be renewed.

        Half of it is for handlers that are running. The rest is for requests, and for event loops that are late.
        """
        return self.lock_s / 4


async def read_group_limits(router: Router, group: str) -> ShareLimits:
    try:
        found = {one.name: one.value for one in await group_config(router, group)}
        found |= await broker_values(router, _OF_BROKERS)
    except BrokerError as error:
        log.warning("group %s: using Kafka's default limits, because they can't be read: %s", group, error)
        return ShareLimits()
    return ShareLimits(
        lock_s=_number(found, "record.lock.duration.ms", 30_000) / 1000,
        deliveries=_number(found, "delivery.count.limit", 5),
        window=_number(found, "partition.max.record.locks", 2_000),
        writes_dead_letters=bool(found.get("errors.deadletterqueue.topic.name")),
    )


_LIMITS = ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")
_OF_BROKERS = [f"group.share.{name}" for name in _LIMITS]


def _number(found: dict[str, str | None], name: str, default: int) -> int:
    """The group's own setting, if it has one; otherwise the brokers'."""
    value = found.get(f"share.{name}") or found.get(f"group.share.{name}")
    return int(value) if value else default
