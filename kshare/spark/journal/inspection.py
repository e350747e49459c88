"""Journals as tools see them: which there are, what is staged in them, and writing that to its topics again.

Decides when a journal is abandoned: its query isn't in the group. What is staged in the journal of an abandoned query
was accepted, so the group doesn't deliver it again; only a copy does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from kshare.admin.log_offsets import EARLIEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.routing import Router
from kshare.admin.topics import list_topics
from kshare.errors import BrokerError, KshareError
from kshare.producer.records import NewRecord, copied_record
from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.protocol.error_codes import ErrorCode
from kshare.spark.existence import is_member
from kshare.spark.journal.folder_store import FolderStore
from kshare.spark.journal.journal import nobody_is_running, open_journal
from kshare.spark.journal.replay import JournalContents, replay, replay_to_damage
from kshare.spark.journal.settings import TOPIC_PREFIX
from kshare.spark.journal.store import JournalError, JournalStore
from kshare.spark.journal.topic_store import TopicStore
from kshare.spark.ranges import JournalPosition, RecordRange
from kshare.surroundings import wall_time

_AT_ONCE = 1_000
_GONE = {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_ID}


@dataclass(frozen=True, slots=True)
class FoundJournal:
    """A journal, and whether its query is running."""

    place: str
    contents: JournalContents
    is_running: bool
    damage: str | None = None
    """Which frame is damaged, and how. The contents are what precedes it."""

    @property
    def ranges(self) -> tuple[RecordRange, ...]:
        """What isn't known to be in a completed micro-batch."""
        return self.contents.staged(self.contents.done)

    @property
    def since_ms(self) -> int | None:
        """When the oldest of it was accepted."""
        ends = [frame.at for _, frame in self.contents.frames if frame.end > self.contents.done]
        return min(ends, default=None)


@dataclass(frozen=True, slots=True)
class Returned:
    """How many staged records were written to their topics again, and how many no longer exist."""

    written: int = 0
    missing: int = 0
    damage: str | None = None
    """Of the journal, which therefore can't be told what was written."""


async def journal_topics(router: Router) -> list[str]:
    """The topics that are named like journals."""
    names = [topic.topic for topic in await list_topics(router, with_internal=False)]
    return [name for name in names if name.startswith(TOPIC_PREFIX)]


def store_of(router: Router, topic: str | None, folder: Path | None) -> JournalStore:
    return FolderStore(folder) if folder is not None else TopicStore(router, topic or "")


async def find_journal(router: Router, store: JournalStore) -> FoundJournal | None:
    """Read it, and change nothing. None if there is no journal in this place."""
    frames = await store.read()
    contents, damage = replay_to_damage(frames)
    if contents is None:
        replay(frames, store.place)  # raises JournalDamaged if there is anything else
        return None
    is_running = await is_member(router, contents.group, contents.member)
    return FoundJournal(store.place, contents, is_running, damage)


async def all_journals(router: Router) -> tuple[list[FoundJournal], list[str]]:
    """The journals in topics that have the usual name, and the topics of those that can't be read."""
    found: list[FoundJournal] = []
    unreadable: list[str] = []
    try:
        topics = await journal_topics(router)
    except KshareError:
        return [], []
    for topic in topics:
        try:
            journal = await find_journal(router, TopicStore(router, topic))
        except KshareError:
            unreadable.append(topic)
        else:
            if journal is not None and journal.damage is not None:
                unreadable.append(topic)
            elif journal is not None:
                found.append(journal)
    return found, unreadable


async def write_back(
    router: Router, store: JournalStore, on_progress: Callable[[Returned], None]
) -> Returned:
    """Write what is staged to its topics and partitions again, and tell the journal that it is done.

    Can be interrupted and run again: some records may be written twice then; all of them, if the journal is damaged.
    Fences the query, if it is still running somewhere. One that starts meanwhile fences this, and processes up to 1,000
    records that were just written again.
    """
    found = await find_journal(router, store)
    if found is None:
        raise JournalError(f"there is no journal in {store.place}")
    if found.is_running:
        raise JournalError(
            f"the query with the journal in {store.place} is running (member {found.contents.member} of group "
            f"{found.contents.group}), and will process the staged records: stop it first"
        )
    of = found.contents
    journal = None
    if found.damage is None:
        journal = await open_journal(
            store,
            group=of.group,
            member=of.member,
            known=JournalPosition(of.journal, store.place, of.done),
            is_running=nobody_is_running,
            now_ms=_now_ms(),
        )
    returned = Returned()
    position = of.done
    async with RecordWriter(router, WriterSettings(compression=None)) as writer:
        for range_ in found.ranges if journal is None else journal.staged(of.done):
            async for piece, records in _read(router, range_):
                await writer.append(range_.topic, range_.partition, records)
                returned = Returned(returned.written + len(records), returned.missing + piece - len(records))
                position += piece
                if journal is not None:
                    journal.complete(position)
                    await journal.tell_what_is_done(_now_ms())
                on_progress(returned)
    if journal is not None:
        await journal.trim()
    return replace(returned, damage=found.damage)


async def _read(router: Router, range_: RecordRange) -> AsyncIterator[tuple[int, list[NewRecord]]]:
    """Yield pieces of the range: how many offsets each has, and the records that still exist."""
    reader = LogReader(router)
    first = range_.first
    while first <= range_.last:
        last = min(range_.last, first + _AT_ONCE - 1)
        found: list[NewRecord] = []
        try:
            async for batch in reader.batches(
                (UUID(range_.topic_id).bytes, range_.partition), first, last + 1
            ):
                found += map(copied_record, batch.records([(first, last)]))
        except BrokerError as error:
            if error.code not in _GONE:
                raise
            found = []
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                # Retention may have removed only the beginning of the piece.
                place = (range_.topic, range_.partition)
                begin = (await log_offsets(router, [place], EARLIEST))[place]
                last = min(last, begin - 1) if begin > first else last
        yield last - first + 1, found
        first = last + 1


def staged_by_partition(ranges: tuple[RecordRange, ...]) -> Counter[tuple[str, int]]:
    """How many records of each topic and partition are staged."""
    counts: Counter[tuple[str, int]] = Counter()
    for range_ in ranges:
        counts[range_.topic, range_.partition] += len(range_)
    return counts


def _now_ms() -> int:
    return int(wall_time() * 1000)
