"""Whether brokers write to a group's dead-letter topic, which name it may have, and how many records it has.

Counting takes 3 Metadata and 2 ListOffsets per leader, if a group has such a topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from kshare.admin.configs import broker_values
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.routing import Router
from kshare.errors import BrokerError, ConfigError

_SETTINGS = "errors.deadletterqueue."
DEAD_LETTER_TOPIC = f"{_SETTINGS}topic.name"
"""The setting of a group."""
GROUP_ENABLE = f"{_SETTINGS}group.enable"
PREFIX = f"{_SETTINGS}topic.name.prefix"
_MAY_CREATE = f"{_SETTINGS}auto.create.topics.enable"
BROKERS_DECIDE_BY = (PREFIX, _MAY_CREATE)
"""Settings of brokers that decide about the topic."""


class DeadLetterFlaw(StrEnum):
    """Why brokers write no dead letters to the topic. They archive records all the same."""

    NAME = "has a name without the brokers' prefix"
    MISSING = "doesn't exist"
    SHUT = "accepts no dead letters"


def has_prefix(topic: str, brokers: Mapping[str, str | None]) -> bool:
    return topic.startswith(brokers.get(PREFIX) or "")


def dead_letter_flaw(
    topic: str, brokers: Mapping[str, str | None], settings: Mapping[str, str | None] | None
) -> DeadLetterFlaw | None:
    """`brokers`: their values of `BROKERS_DECIDE_BY`. `settings`: the topic's; None if it doesn't exist."""
    if not has_prefix(topic, brokers):
        return DeadLetterFlaw.NAME
    if settings is None:
        return None if brokers.get(_MAY_CREATE) == "true" else DeadLetterFlaw.MISSING
    return None if settings.get(GROUP_ENABLE) == "true" else DeadLetterFlaw.SHUT


async def count_records(router: Router, topics: Iterable[str]) -> dict[str, int]:
    """Without topics that don't exist, or that we may not read."""
    wanted = set(topics)
    if not wanted:
        return {}
    partitions = [
        (topic.name or "", row.partition_index)
        for topic in (await router.metadata(None)).topics
        if topic.name in wanted
        for row in topic.partitions
        if row.leader_id >= 0
    ]
    if not partitions:
        return {}
    try:
        firsts = await log_offsets(router, partitions, EARLIEST)
        ends = await log_offsets(router, partitions, LATEST)
    except BrokerError:  # a topic was deleted meanwhile, or we lack the permission
        return {}
    counts: Counter[str] = Counter()
    for where, end in ends.items():
        counts[where[0]] += max(0, end - firsts.get(where, end))
    return dict(counts)


async def require_dead_letter_name(router: Router, topic: str) -> None:
    """Raises ConfigError for a name without the brokers' prefix; brokers before Kafka 4.4 have none."""
    brokers = await broker_values(router, [PREFIX])
    if not has_prefix(topic, brokers):
        prefix = brokers[PREFIX]
        raise ConfigError(
            f"{DEAD_LETTER_TOPIC}={topic} was not set: brokers write dead letters only to topics whose names begin "
            f"with {prefix!r} (their {PREFIX}), and drop them otherwise; use {prefix}{topic}"
        )
