"""Reads dead letters by plain Fetch, which needs no group and acknowledges nothing, and finds dead-letter topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

import anyio.lowlevel

from kshare.admin import configs, groups
from kshare.admin.batch_opening import open_batch
from kshare.admin.configs import ConfigResource
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets, partitions_of
from kshare.admin.log_reading import LogReader
from kshare.admin.reading_budget import counting_budget
from kshare.admin.results import TopicPartition
from kshare.admin.routing import Router
from kshare.admin.share_states import StateLog
from kshare.dead_letters.claims import LETTER_TOPIC
from kshare.dead_letters.dead_letter import DeadLetter, read
from kshare.dead_letters.letter_states import LetterStates, default_group, letter_states, readable_states
from kshare.dead_letters.selection import Selection
from kshare.dead_letters.unreadable import Unreadable
from kshare.errors import ConfigError, CorruptBatchError, KshareError, NotAuthorized

ENABLED = "errors.deadletterqueue.group.enable"
_MOST_NAMED = 1_000
"""Groups of one topic."""
_AT_A_TIME = 500
"""Records between which other tasks run: a batch may have millions."""


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    topic: str
    partitions: int
    letters: int | None
    """Dead letters in the topic, without those that are settled; None if we may not read the topic."""
    settled: int | None
    """Dead letters in the topic that were redriven, dropped or moved; None if we may not read their state, and then
    `letters` are all."""
    groups: tuple[str, ...]
    """Share groups whose config names this topic, and those that dead letters in it name."""
    problems: tuple[str, ...] = ()
    """What couldn't be read, and isn't counted."""


async def list_dead_letter_topics(router: Router, group: str | None = None) -> list[DeadLetterTopic]:
    """Topics that accept dead letters, and those that a group's config names, whether they accept them or not.

    `group` is the group that keeps track of redriven letters.
    """
    known = frozenset(listed.group for listed in await groups.list_groups(router, ("share",), ()))
    senders = await _senders(router, known)
    log, found = StateLog(router), []
    for topic in (await router.metadata(None)).topics:
        name = topic.name or ""
        if topic.is_internal or topic.error_code:
            continue
        if name in senders or await accepts_dead_letters(router, name):
            unreadable, named = Unreadable(), set(senders.get(name, ()))
            counts: tuple[int | None, int | None] = None, None
            try:
                firsts, ends = await bounds(router, name)
                states = await readable_states(router, name, group or default_group(name), firsts, ends, log)
                counts = await _count(router, name, states, firsts, ends, unreadable, named)
            except KshareError as error:  # such as one that was deleted meanwhile: the others are shown
                unreadable.add_topic(name, error)
            groups_of = tuple(sorted(named & known))  # anybody can write other names
            found.append(
                DeadLetterTopic(name, len(topic.partitions), *counts, groups_of, tuple(unreadable.texts))
            )
    return sorted(found, key=lambda row: row.topic)


async def _count(
    router: Router,
    topic: str,
    states: LetterStates | None,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    unreadable: Unreadable,
    named: set[str],
) -> tuple[int | None, int | None]:
    """How many dead letters are not settled, and how many are. Other records in the topic don't count.

    The groups that dead letters name are added to `named`: those of kshare's workers have no config that names it.
    """
    total = settled = 0
    try:
        async for letter in letters(router, topic, firsts, ends, unreadable, with_others=False):
            total += letter.is_dead_letter
            if len(named) < _MOST_NAMED and letter.group:
                named.add(letter.group)
            settled += letter.is_dead_letter and states is not None and states.has_settled(letter)
    except NotAuthorized:
        return None, None
    return total - settled, None if states is None else settled


async def _senders(router: Router, known: Iterable[str]) -> Mapping[str, list[str]]:
    senders: dict[str, list[str]] = defaultdict(list)
    for group in known:
        try:
            entries = await configs.describe(router, ConfigResource.GROUP, group, keys=[LETTER_TOPIC])
        except NotAuthorized:
            continue  # the topic's own config may still tell
        for entry in entries:
            if entry.value:
                senders[entry.value].append(group)
    return senders


async def accepts_dead_letters(router: Router, topic: str) -> bool:
    """Whether brokers may write dead letters to it."""
    try:
        entries = await configs.describe(router, ConfigResource.TOPIC, topic, keys=[ENABLED])
    except NotAuthorized:
        return False
    return any(entry.value == "true" for entry in entries)


async def bounds(router: Router, topic: str) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The start offsets and end offsets of all partitions."""
    where = await partitions_of(router, {topic: None})
    return await log_offsets(router, where, EARLIEST), await log_offsets(router, where, LATEST)


async def letters(
    router: Router,
    topic: str,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    unreadable: Unreadable,
    *,
    with_others: bool = True,
) -> AsyncIterator[DeadLetter]:
    """Yield all records, partition by partition. What can't be read is left out, and noted.

    Without `with_others`, records that have no headers are skipped: a batch may have a million of them.
    """
    topic_id = (await router.metadata([topic])).topics[0].topic_id
    reader = LogReader(router)
    for (_, number), end in sorted(ends.items()):
        first = at = firsts[topic, number]
        try:
            async for batch in reader.batches((topic_id, number), first, end, counting_budget()):
                at = max(first, batch.base_offset)
                last = min(batch.last_offset, end - 1)
                try:
                    await open_batch(batch)
                    for count, record in enumerate(batch.records([(at, last)])):
                        if count % _AT_A_TIME == 0:
                            await anyio.lowlevel.checkpoint()
                        at = record.offset
                        if with_others or record.header_count:
                            yield read(topic, number, record)
                except CorruptBatchError as error:
                    unreadable.add(topic, number, at, last, error)
                at = last + 1
        except CorruptBatchError as error:  # where the next batch begins isn't known
            unreadable.add(topic, number, at, end - 1, error)


async def open_letters(
    router: Router,
    topic: str,
    group: str,
    selection: Selection,
    unreadable: Unreadable,
    *,
    with_others: bool = True,
) -> AsyncIterator[DeadLetter]:
    """Yield the selected dead letters that this group hasn't settled. Raises ConfigError if one doesn't exist."""
    firsts, ends = await bounds(router, topic)
    require_letters(topic, selection, firsts, ends)
    states = await letter_states(router, topic, group, firsts, ends)
    starts = {where: max(first, states.starts.get(where[1], 0)) for where, first in firsts.items()}
    async for letter in letters(router, topic, starts, ends, unreadable, with_others=with_others):
        is_open = not states.has_settled(letter) and not states.has_given_up(letter)
        if is_open and selection.wants(letter):
            yield letter


async def count_given_up(router: Router, topic: str, selection: Selection, states: LetterStates) -> int:
    """How many of the selected dead letters the group no longer delivers."""
    if not states.given_up:
        return 0
    offsets_of: dict[TopicPartition, list[int]] = defaultdict(list)
    for partition, offset in states.given_up:
        offsets_of[topic, partition].append(offset)
    firsts = {where: min(found) for where, found in offsets_of.items()}
    ends = {where: max(found) + 1 for where, found in offsets_of.items()}
    count = 0
    async for letter in letters(router, topic, firsts, ends, Unreadable()):
        count += states.has_given_up(letter) and selection.wants(letter)
    return count


def require_letters(
    topic: str,
    selection: Selection,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Raises ConfigError if a dead letter that was chosen doesn't exist."""
    missing = [
        f"{partition}:{offset}"
        for partition, offset in sorted(selection.places)
        if not firsts.get((topic, partition), 0) <= offset < ends.get((topic, partition), 0)
    ]
    if missing:
        raise ConfigError(f"topic {topic} has no dead letter {', '.join(missing)}")
