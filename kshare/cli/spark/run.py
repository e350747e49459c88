"""Runs `kshare spark journal`: shows journals, and writes back what is staged in them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.terminal.failure import Failure, Misuse
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.standard_error import ProgressLine
from kshare.cli.terminal.table import show, show_json
from kshare.errors import KshareError
from kshare.spark.journal.inspection import (
    FoundJournal,
    Returned,
    find_journal,
    journal_topics,
    staged_by_partition,
    store_of,
)
from kshare.spark.journal.inspection import write_back as write_records_back
from kshare.wording import counted

_HEADS = ["JOURNAL", "GROUP", "QUERY", "TOPIC", "PARTITION", "STAGED", "FOR"]


def inspect(cluster: Cluster, topics: Sequence[str], folder: Path | None, is_json: bool) -> None:
    if topics and folder is not None:
        raise Misuse("name topics or a --folder, not both")

    unreadable: list[tuple[str, KshareError]] = []

    async def work(router: Router) -> list[FoundJournal]:
        names = [] if folder is not None else topics or await journal_topics(router)
        stores = [store_of(router, name, None) for name in names]
        stores += [store_of(router, None, folder)] if folder is not None else []
        found = []
        for store in stores:
            try:
                journal = await find_journal(router, store)
            except KshareError as error:
                if topics or folder:
                    raise
                unreadable.append((store.place, error))
                continue
            if journal is not None:
                found.append(journal)
            elif topics or folder:
                raise Failure(f"there is no journal in {store.place}")
        return found

    found = cluster.run_routed(work)
    screen = Screen()
    if is_json:
        errors = [{"journal": place, "error": str(error)} for place, error in unreadable]
        show_json(screen, [*map(_form, found), *errors])
    else:
        if found:
            rows = [row for journal in found for row in _rows(journal)]
            show(screen, _HEADS, rows, ["PARTITION", "STAGED"])
        elif not unreadable:
            screen.line("there are no journals")
        for place, error in unreadable:
            screen.paragraph((f"{place}  ", "bold"), f"can't be read: {error}", 2)
        for journal in found:
            if journal.damage:
                screen.paragraph((f"{journal.place}  ", "bold"), f"is damaged at {journal.damage}", 2)
    screen.done()


def write_back(
    cluster: Cluster, topic: str | None, folder: Path | None, is_dry_run: bool, is_json: bool
) -> None:
    if (topic is None) == (folder is None):
        raise Misuse("name the journal's topic, or its --folder")
    if is_dry_run:
        inspect(cluster, [] if topic is None else [topic], folder, is_json)
        if not is_json:
            typer.echo("staged records would be written to their topics again; nothing was changed")
        return
    screen = Screen()
    line = ProgressLine()

    def tell(returned: Returned) -> None:
        line.show(f"written {returned.written:,}")

    try:
        returned = cluster.run_routed(
            lambda router: write_records_back(router, store_of(router, topic, folder), tell)
        )
    finally:
        line.done()
    if is_json:
        show_json(screen, asdict(returned))
    else:
        screen.line(f"{counted(returned.written, 'record')} written to their topics again")
        if returned.missing:
            screen.line((f"{counted(returned.missing, 'offset')} no longer had a record", "yellow"))
        if returned.damage:
            text = f"at {returned.damage}: what came after that is unknown. Delete it; running this again writes again"
            screen.paragraph(("the journal is damaged  ", "bold"), text, 2)
    screen.done()


def _rows(found: FoundJournal) -> list[tuple[Any, ...]]:
    """One for each partition with staged records, or one without."""
    of = (found.place, found.contents.group, "running" if found.is_running else "not running")
    age = None if found.since_ms is None else f"{max(0, int(time.time() - found.since_ms / 1000)):,} s"
    staged = sorted(staged_by_partition(found.ranges).items())
    rows = [(*of, topic, number, count, age) for (topic, number), count in staged]
    return rows or [(*of, None, None, 0, None)]


def _form(found: FoundJournal) -> dict[str, Any]:
    return {
        "journal": found.place,
        "group": found.contents.group,
        "member": found.contents.member,
        "is_running": found.is_running,
        "damage": found.damage,
        "staged": sum(map(len, found.ranges)),
        "staged_since": found.since_ms,
        "ranges": [
            {"topic": range_.topic, "partition": range_.partition, "first": range_.first, "last": range_.last}
            for range_ in found.ranges
        ],
    }
