"""The settings of groups and topics that give figures a meaning: limits, dead-letter topics, retention.

They change rarely, so they are read again only after a minute. What we may not read has Kafka's default.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

from kshare.admin.configs import ConfigResource, broker_values, describe_each, describe_many
from kshare.admin.expected_starts import RESET
from kshare.admin.routing import Router
from kshare.admin.window_limits import OF_BROKERS, OF_GROUP, USUAL_LIMIT
from kshare.monitor.dead_letter_topics import (
    BROKERS_DECIDE_BY,
    DEAD_LETTER_TOPIC,
    GROUP_ENABLE,
    DeadLetterFlaw,
    dead_letter_flaw,
)
from kshare.monitor.retention import Retention
from kshare.protocol.error_codes import ErrorCode

DELIVERY_LIMIT = "share.delivery.count.limit"
USUAL_DELIVERY_LIMIT = 5
MOST_MEMBERS = "group.share.max.size"
USUAL_MOST_MEMBERS = 200
_ISOLATION = "share.isolation.level"
_RETENTION = ["cleanup.policy", "retention.ms"]
_FOR_S = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupSettings:
    window_limit: int = USUAL_LIMIT
    """The maximum size of an in-flight window, in offsets."""
    delivery_limit: int = USUAL_DELIVERY_LIMIT
    """After so many deliveries, a record is archived."""
    dead_letter_topic: str | None = None
    most_members: int = USUAL_MOST_MEMBERS
    reset: str | None = None
    """Where a group starts that has no offsets: `share.auto.offset.reset`. None if we may not read it."""
    is_committed_only: bool = False
    """Whether it skips aborted transactions: `share.isolation.level=read_committed`."""


class SettingsReader:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._brokers: dict[str, str | None] | None = None
        self.groups = _Remembered(self._read_groups)
        self.retention_s = _Remembered(self._read_retention)
        """How long records of topics are kept; None if there is no limit, or we may not read it."""
        self.dead_letter_flaws = _Remembered(self._read_flaws)
        """Why brokers write no dead letters to topics; None if they do, or if we may not read it."""

    async def _read_groups(self, names: list[str]) -> dict[str, GroupSettings]:
        usual = _usual_settings(await self._of_brokers())
        settings = [OF_GROUP, DELIVERY_LIMIT, DEAD_LETTER_TOPIC, RESET, _ISOLATION]
        found = await describe_many(self._router, ConfigResource.GROUP, names, settings)
        return {name: _group_settings(found.get(name, {}), usual) for name in names}

    async def _read_retention(self, topics: list[str]) -> dict[str, float | None]:
        found = await describe_many(self._router, ConfigResource.TOPIC, topics, _RETENTION)
        return {name: _seconds(found.get(name)) for name in topics}

    async def _read_flaws(self, topics: list[str]) -> dict[str, DeadLetterFlaw | None]:
        brokers = await self._of_brokers()
        found = await describe_each(self._router, ConfigResource.TOPIC, topics, [GROUP_ENABLE])
        return {name: _flaw(name, brokers, found[name]) for name in topics}

    async def _of_brokers(self) -> dict[str, str | None]:
        if self._brokers is None:
            self._brokers = await broker_values(
                self._router, [OF_BROKERS, f"group.{DELIVERY_LIMIT}", MOST_MEMBERS, *BROKERS_DECIDE_BY]
            )
        return self._brokers


class _Remembered(Generic[T]):
    """Values by name, until they are too old."""

    def __init__(self, read: Callable[[list[str]], Awaitable[dict[str, T]]]) -> None:
        self._read = read
        self._values: dict[str, tuple[float, T]] = {}

    async def of(self, names: Iterable[str]) -> dict[str, T]:
        """Forgets all others: their groups or topics are gone."""
        wanted = dict.fromkeys(names)
        known, oldest = self._values, anyio.current_time() - _FOR_S
        if missing := [name for name in wanted if name not in known or known[name][0] < oldest]:
            found = await self._read(missing)
            now = anyio.current_time()
            known = known | {name: (now, value) for name, value in found.items()}
        self._values = {name: value for name, value in known.items() if name in wanted}
        return {name: value for name, (_, value) in self._values.items()}


def _usual_settings(brokers: Mapping[str, str | None]) -> GroupSettings:
    """The values for groups without settings of their own: before Kafka 4.3, only brokers have limits."""
    return GroupSettings(
        int(brokers.get(OF_BROKERS) or USUAL_LIMIT),
        int(brokers.get(f"group.{DELIVERY_LIMIT}") or USUAL_DELIVERY_LIMIT),
        None,
        int(brokers.get(MOST_MEMBERS) or USUAL_MOST_MEMBERS),
    )


def _flaw(
    topic: str, brokers: Mapping[str, str | None], found: Mapping[str, str | None] | int
) -> DeadLetterFlaw | None:
    if not isinstance(found, int):
        return dead_letter_flaw(topic, brokers, found)
    if (
        found == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and brokers
    ):  # else we may not read whether they create it
        return dead_letter_flaw(topic, brokers, None)
    return None


def _group_settings(found: Mapping[str, str | None], usual: GroupSettings) -> GroupSettings:
    return GroupSettings(
        int(found.get(OF_GROUP) or usual.window_limit),
        int(found.get(DELIVERY_LIMIT) or usual.delivery_limit),
        found.get(DEAD_LETTER_TOPIC) or None,
        usual.most_members,
        found.get(RESET),
        found.get(_ISOLATION) == "read_committed",
    )


def _seconds(found: dict[str, str | None] | None) -> float | None:
    kept = Retention.of(found or {})
    return kept.milliseconds / 1000 if kept.is_deleting and kept.milliseconds is not None else None
