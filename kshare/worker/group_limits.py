"""The limits of a share group that a worker has to know: lock duration, deliveries, size of the in-flight window."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields

import anyio

from kshare.admin.configs import broker_values, group_config
from kshare.admin.routing import Router
from kshare.errors import BrokerError, KshareError

log = logging.getLogger("kshare.worker")

LOOK_FOR_LIMITS_S = 10.0
"""How often the limits of a group are read: two requests for each group."""


@dataclass(slots=True)
class ShareLimits:
    """Kafka's defaults, for what we aren't authorized to read. They may change while a worker runs."""

    lock_s: float = 30.0
    deliveries: int = 5
    window: int = 2_000
    writes_dead_letters: bool = False
    """Whether the brokers write dead letters for the group."""

    def become(self, other: ShareLimits) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(other, one.name))

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

    def may_be_released(self, delivery_count: int) -> bool:
        """Whether a record that nobody has tried may be given back. It has to have two deliveries left, and must not be
        taken for one whose deliveries end without a result."""
        return self.deliveries - delivery_count >= 2 and delivery_count + 1 < self.last_safe_delivery

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
        return await current_limits(router, group)
    except BrokerError as error:
        log.warning("group %s: using Kafka's default limits, because they can't be read: %s", group, error)
        return ShareLimits()


async def watch_limits(look: Callable[[], Awaitable[None]]) -> None:
    """Look for changes, until cancelled."""
    while True:
        await anyio.sleep(LOOK_FOR_LIMITS_S)
        await look()


async def look_for_changes(
    router: Router,
    on_change: Callable[[str], None],
    limits: Mapping[str, ShareLimits],
    *,
    longest_s: float = math.inf,
) -> None:
    """By group. What can't be read, or not within `longest_s` each, is as before."""
    for group, known in limits.items():
        try:
            with anyio.fail_after(longest_s):
                found = await current_limits(router, group)
        except (KshareError, TimeoutError) as error:
            log.debug("group %s: its limits can't be read: %r", group, error)
            continue
        if found != known:
            log.warning("group %s: its limits have changed: %s", group, found)
            known.become(found)
            on_change(group)


async def current_limits(router: Router, group: str) -> ShareLimits:
    """Raises BrokerError."""
    found = {one.name: one.value for one in await group_config(router, group)}
    found |= await broker_values(router, _OF_BROKERS)
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
