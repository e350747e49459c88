"""Finds dead-letter topics quickly, without reading a dead letter, so that a page can show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import anyio

from kshare.admin.configs import ConfigResource, describe_many
from kshare.admin.routing import Router
from kshare.admin.share_states import StateLog
from kshare.dead_letters.letter_states import default_group, letter_states
from kshare.dead_letters.read import ENABLED, bounds


@dataclass(frozen=True, slots=True)
class TopicOverview:
    topic: str
    partitions: int
    groups: tuple[str, ...]
    """Share groups whose config names this topic."""
    accepts: bool
    """Whether brokers may write dead letters to it."""


@dataclass(frozen=True, slots=True)
class LetterCounts:
    """Of offsets: markers, and records that aren't dead letters, count as well."""

    held: int
    settled: int
    """Redriven or dropped."""


async def overview(router: Router, named_by: Mapping[str, Iterable[str]]) -> list[TopicOverview]:
    """Topics that accept dead letters, and those that a group's config names. `named_by` are groups by topic."""
    topics = [
        topic
        for topic in (await router.metadata(None)).topics
        if not topic.is_internal and not topic.error_code
    ]
    names = [topic.name or "" for topic in topics]
    found = await describe_many(router, ConfigResource.TOPIC, names, [ENABLED])
    rows = []
    for topic in topics:
        name = topic.name or ""
        accepts = found.get(name, {}).get(ENABLED) == "true"
        if accepts or name in named_by:
            groups = tuple(sorted(named_by.get(name, ())))
            rows.append(TopicOverview(name, len(topic.partitions), groups, accepts))
    return sorted(rows, key=lambda row: row.topic)


class LetterCounter:
    """Counts dead letters, of several topics at once."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._log, self._reading = StateLog(router), anyio.Lock()

    async def count(self, topic: str) -> LetterCounts:
        firsts, ends = await bounds(self._router, topic)
        async with self._reading:
            states = await letter_states(self._router, topic, default_group(topic), firsts, ends, self._log)
        before = sum(
            max(0, min(states.starts.get(number, first), ends[name, number]) - first)
            for (name, number), first in firsts.items()
        )
        beyond = sum(offset >= states.starts.get(number, 0) for number, offset in states.beyond)
        return LetterCounts(sum(ends[where] - first for where, first in firsts.items()), before + beyond)
