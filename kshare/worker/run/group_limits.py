"""Reads the limits of a share group, and looks for changes while a worker runs."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping

import anyio

from kshare.admin.configs import broker_values, group_config
from kshare.admin.routing import Router
from kshare.errors import BrokerError, KshareError
from kshare.worker.rules.limits import ShareLimits

log = logging.getLogger("kshare.worker")

LOOK_FOR_LIMITS_S = 10.0
"""How often the limits of a group are read: two requests for each group."""


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
    found = {setting.name: setting.value for setting in await group_config(router, group)}
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
