"""What a cluster says about the topics and groups of a worker. Only data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kshare.net.addresses import format_address
from kshare.net.settings import NetSettings
from kshare.worker.handlers.routes import Route
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.settle.retry_group import retry_group


@dataclass(frozen=True, slots=True)
class TopicFacts:
    partitions: int = 0
    """0: it doesn't exist."""
    operations: int | None = None
    """What this user may do, as a set of bits; None if the brokers have no access rules."""
    not_created: str = ""
    """Why this user can't create it; empty if it can, or if the topic exists."""
    grant: str = ""
    """The command that allows this user to create it."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    type: str = ""
    """Share, Consumer, Classic or Streams; empty if it doesn't exist, or if we may not see that."""
    operations: int | None = None
    limits: ShareLimits = field(default_factory=ShareLimits)
    reset: str = ""
    """share.auto.offset.reset; empty if we may not read it."""
    is_reset_chosen: bool = False
    """Whether it is set for this group."""
    unread: tuple[str, ...] = ()
    """Topics in which the group has no offsets yet."""
    members: int = 0
    unreadable: str = ""
    """Why its limits can't be read."""


@dataclass(frozen=True, slots=True)
class AppFacts:
    routes: list[Route]
    """With the topics that match their patterns."""
    settings: NetSettings
    can_renew: bool
    topics: dict[str, TopicFacts]
    groups: dict[str, GroupFacts]
    known_topics: tuple[str, ...] = ()
    most_members: int | None = None
    """None if we may not read it."""
    processes: int = 1

    @property
    def server(self) -> str:
        """The bootstrap server, for suggested commands."""
        return format_address(self.settings.bootstrap[0])


def members_of(routes: list[Route]) -> Counter[str]:
    """How many members one process has in each group: one for each handler, and for each of its retry delays."""
    found: Counter[str] = Counter()
    for route in routes:
        found[route.group] += 1
        if route.options.tiers is not None:
            found[retry_group(route.group)] += len(route.options.tiers.tiers)
    return found


def source_topics(routes: list[Route]) -> dict[str, list[Route]]:
    """The topics that are processed, with their handlers."""
    found: dict[str, list[Route]] = {}
    for route in routes:
        for topic in route.topics:
            found.setdefault(topic, []).append(route)
    return found


def retry_topics(routes: list[Route]) -> list[str]:
    return list(dict.fromkeys(topic for route in routes for tier in route.retry_topics() for topic in tier))


def dead_topics(routes: list[Route]) -> list[str]:
    names = (route.options.dead_letters for route in routes)
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))
