"""Finds the store of a journal: by the options of a query, or by what its checkpoint says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import anyio

from kshare.admin.configs import topic_values
from kshare.admin.routing import Router
from kshare.errors import BrokerError, ConfigError
from kshare.protocol.error_codes import ErrorCode
from kshare.spark.journal.folder_store import FolderStore
from kshare.spark.journal.journal import nobody_is_running, open_journal, require_match
from kshare.spark.journal.replay import replay
from kshare.spark.journal.settings import JournalSettings
from kshare.spark.journal.store import JournalError, JournalStore, return_command
from kshare.spark.journal.topic_store import TopicStore
from kshare.spark.ranges import JournalPosition

_RETENTION, _CLEANUP = "retention.ms", "cleanup.policy"
_UNKNOWN_S = 10.0
"""A journal's topic may be new, and a broker may just have started."""


async def opened_store(
    router: Router, settings: JournalSettings, topics: Iterable[str], usual_topic: str
) -> JournalStore:
    """Create the topic or the folder if necessary. `topics`: those of the query."""
    if settings.folder is not None:
        in_folder = FolderStore(settings.folder)
        await in_folder.open()
        return in_folder
    in_topic = TopicStore(router, settings.topic or usual_topic, unknown_s=_UNKNOWN_S)
    await in_topic.open(topics)
    return in_topic


async def check_retention(router: Router, topics: Iterable[str], max_age: float) -> None:
    """Raise ConfigError if records could be deleted while they are staged."""
    for topic in topics:
        values = await topic_values(router, topic, [_RETENTION, _CLEANUP])
        # Compaction without deletion keeps records of any age. What it removes is superseded by a newer record.
        if "delete" in (values.get(_CLEANUP) or "delete"):
            kept_s = int(values.get(_RETENTION) or -1) / 1000
            if 0 <= kept_s <= max_age:
                raise ConfigError(
                    f"topic {topic} deletes records after {kept_s:g} s ({_RETENTION}), and records may be staged for "
                    f"{max_age:g} s: set journalMaxAgeMs to less than half of {int(kept_s * 1000)}, or raise "
                    f"{_RETENTION}"
                )


async def check_drained(router: Router, known: JournalPosition, now_ms: int) -> None:
    """Raise JournalError if the query has staged records, because it would continue without them."""
    kind, _, name = known.place.partition(" ")
    in_topic = TopicStore(router, name, unknown_s=_UNKNOWN_S)
    store = in_topic if kind == "topic" else FolderStore(Path(name))
    try:
        frames = await store.read() if kind == "topic" or await anyio.Path(name).exists() else []
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        frames = []
    contents = replay(frames, known.place)
    require_match(contents, known, known.place)
    assert contents is not None, "it matches"
    _require_drained(contents.end, known)
    # So that a journal of this query can begin in the same place later.
    journal = await open_journal(
        store,
        group=contents.group,
        member=contents.member,
        known=known,
        is_running=nobody_is_running,
        now_ms=now_ms,
    )
    # An older runner may have staged more. Now it is fenced.
    _require_drained(journal.end, known)
    journal.complete(known.taken)
    await journal.tell_what_is_done(now_ms)


def _require_drained(end: int, known: JournalPosition) -> None:
    if end > known.taken:
        raise JournalError(
            f"the query's journal in {known.place} has {end - known.taken:,} staged records, which would be "
            'lost without it: set option("settle", "journal") again and let the query process them, or write them to '
            f"their topics again: `{return_command(known.place)}`"
        )
