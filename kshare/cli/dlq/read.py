"""Reads dead letters by plain Fetch, which needs no group and acknowledges nothing, and finds dead-letter topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from kshare.admin import configs, groups
from kshare.admin.configs import ConfigResource
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets, partitions_of
from kshare.admin.log_reading import LogReader
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.cli.dlq.dead_letter import DeadLetter, read
from kshare.cli.dlq.redriven import RedrivenLetters, default_group, settled_letters
from kshare.errors import NotAuthorized

_SETTINGS = "errors.deadletterqueue."
_NAME = f"{_SETTINGS}topic.name"
_ENABLED = f"{_SETTINGS}group.enable"


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    topic: str
    partitions: int
    letters: int | None
    """Dead letters in the topic, without those that were redriven; None if we may not read the topic."""
    redriven: int | None
    """Dead letters in the topic that were redriven; None if we may not read their state, and then `letters` are all."""
    groups: tuple[str, ...]
    """Share groups whose config names this topic."""


async def list_dead_letter_topics(router: Router, group: str | None = None) -> list[DeadLetterTopic]:
    """Topics that accept dead letters, and those that a group's config names, whether they accept them or not.

    `group` is the group that keeps track of redriven letters.
    """
    senders = await _senders(router)
    found = []
    for topic in (await router.metadata(None)).topics:
        name = topic.name or ""
        if topic.is_internal or topic.error_code:
            continue
        if name in senders or await accepts_dead_letters(router, name):
            firsts, ends = await bounds(router, name)
            settled = await _settled(router, name, group or default_group(name), firsts, ends)
            counts = await _count(router, name, settled, firsts, ends)
            found.append(
                DeadLetterTopic(name, len(topic.partitions), *counts, tuple(sorted(senders.get(name, ()))))
            )
    return sorted(found, key=lambda one: one.topic)


async def _settled(
    router: Router,
    topic: str,
    group: str,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> RedrivenLetters | None:
    try:
        return await settled_letters(router, topic, group, firsts, ends)
    except NotAuthorized:
        return None


async def _count(
    router: Router,
    topic: str,
    settled: RedrivenLetters | None,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> tuple[int | None, int | None]:
    """How many dead letters were not redriven, and how many were. Other records in the topic don't count."""
    total = redriven = 0
    try:
        async for letter in letters(router, topic, firsts, ends):
            total += letter.is_dead_letter
            redriven += letter.is_dead_letter and settled is not None and settled.has(letter)
    except NotAuthorized:
        return None, None
    return total - redriven, None if settled is None else redriven


async def _senders(router: Router) -> Mapping[str, list[str]]:
    senders: dict[str, list[str]] = defaultdict(list)
    for group in await groups.list_groups(router, ("share",), ()):
        try:
            entries = await configs.describe(router, ConfigResource.GROUP, group.group, keys=[_NAME])
        except NotAuthorized:
            continue  # the topic's own config may still tell
        for one in entries:
            if one.value:
                senders[one.value].append(group.group)
    return senders


async def accepts_dead_letters(router: Router, topic: str) -> bool:
    """Whether brokers may write dead letters to it."""
    try:
        entries = await configs.describe(router, ConfigResource.TOPIC, topic, keys=[_ENABLED])
    except NotAuthorized:
        return False
    return any(one.value == "true" for one in entries)


async def bounds(router: Router, topic: str) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The start offsets and end offsets of all partitions."""
    where = await partitions_of(router, {topic: None})
    return await log_offsets(router, where, EARLIEST), await log_offsets(router, where, LATEST)


async def letters(
    router: Router, topic: str, firsts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> AsyncIterator[DeadLetter]:
    """Yield all records, partition by partition."""
    topic_id = (await router.metadata([topic])).topics[0].topic_id
    reader = LogReader(router)
    for (_, number), end in sorted(ends.items()):
        first = firsts[topic, number]
        async for batch in reader.batches((topic_id, number), first, end):
            for record in batch:
                if first <= record.offset < end:
                    yield read(topic, number, record)
