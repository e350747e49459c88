"""What `kshare dlq drop` shows."""

from __future__ import annotations

from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.cluster.known_names import explaining
from kshare.cli.dlq.letters_view import letter_form, show_rows
from kshare.cli.dlq.run_view import (
    complain,
    complain_of_unreadable,
    form_of,
    note_of_given_up,
    show_moved,
    show_skipped,
    watched,
)
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show_json
from kshare.dead_letters.drop import DropProgress, DropRequest, PlannedDrop, drop, plan_drop
from kshare.dead_letters.letter_states import default_group
from kshare.dead_letters.unreadable import Unreadable
from kshare.wording import counted


def run_drop(
    cluster: Cluster, topic: str, group: str | None, request: DropRequest, is_dry_run: bool, is_json: bool
) -> None:
    named = group or default_group(topic)
    screen = Screen()
    if is_dry_run:
        unreadable = Unreadable()
        planned = cluster.run_routed(lambda router: _planned(router, topic, named, request, unreadable))
        given_up = "" if planned else note_of_given_up(cluster, topic, named, request.selection)
        _show_plan(screen, planned, given_up, is_json)
        screen.done()
        complain_of_unreadable(unreadable.texts)
        return
    outcome = watched(
        cluster,
        [topic],
        _progress_text,
        lambda router, show: drop(router, cluster.options, topic, named, request, show),
    )
    progress = outcome.progress
    if is_json:
        form = {"group": named, "dropped": progress.dropped, "unconfirmed": progress.unconfirmed}
        show_json(screen, form | form_of(outcome))
    else:
        screen.line(f"{counted(progress.dropped, 'dead letter')} dropped")
        show_skipped(screen, progress, named)
        if progress.again:
            again = f"{counted(progress.again, 'dead letter')} not dropped: the lock was lost"
            screen.line(f"{again}, so the next run gets it again")
        if progress.unconfirmed:
            unconfirmed = f"{counted(progress.unconfirmed, 'dead letter')} may or may not be dropped"
            screen.line(f"{unconfirmed}: see kshare dlq show {topic}")
        show_moved(screen, progress, named)
    screen.done()
    complain(outcome.problem, progress, named, outcome.is_complete, "drop")


async def _planned(
    router: Router, topic: str, group: str, request: DropRequest, unreadable: Unreadable
) -> list[PlannedDrop]:
    async def plan() -> list[PlannedDrop]:
        return [letter async for letter in plan_drop(router, topic, group, request, unreadable)]

    return await explaining(router, [topic], plan())


def _show_plan(screen: Screen, planned: list[PlannedDrop], given_up: str, is_json: bool) -> None:
    if is_json:
        show_json(screen, [letter_form(row.letter) | {"is_duplicate": row.is_duplicate} for row in planned])
    elif not planned:
        screen.line(f"nothing to drop{given_up}")
    else:
        duplicates = sum(row.is_duplicate for row in planned)
        marks = ["yes" if row.is_duplicate else None for row in planned]
        show_rows(screen, [row.letter for row in planned], "DUPLICATE", marks)
        count = len(planned) - duplicates
        also = f", and {counted(duplicates, 'duplicate')} settled" if duplicates else ""
        screen.line(f"{counted(count, 'dead letter')} would be dropped{also}; nothing was changed")


def _progress_text(progress: DropProgress) -> str:
    return f"dropped {progress.dropped}, skipped {progress.passed_over}"
