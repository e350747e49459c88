"""A group: its partitions as pictures and its members, live. Its settings and offsets have pages of their own."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kshare.admin.results import PartitionProgress
from kshare.doctor.check_result import CheckLevel, CheckResult
from kshare.doctor.group_settings import check_of
from kshare.monitor.figures import Row, TableView
from kshare.monitor.picture import Picture, Standing
from kshare.monitor.snapshot import GroupReading, PartitionReading
from kshare.monitor.stalls import assigned_members
from kshare.monitor.troubles import (
    about_window,
    first_record_history,
    full_window,
    name_of,
    possible_holders,
    removed,
    stalled,
    standing_still,
)
from kshare.state.share_records import SharePartitionKey
from kshare.web.bars import BarScale, SvgBar, bar_of, class_of, scale_of
from kshare.web.console import Console
from kshare.web.group_lookup import find_group
from kshare.web.known_fleet import KnownRun
from kshare.web.paging import chosen, ordered, page_of
from kshare.web.watcher import View

_PARTITIONS_ON_PAGE, _MEMBERS_ON_PAGE, _UNHEARD_ON_PAGE, _FINDINGS_ON_PAGE = 20, 50, 20, 20
_SORTS = ("place", "lag", "oldest_seconds", "window_use", "most_deliveries")
_WRONG = (CheckLevel.PROBLEM, CheckLevel.WARNING)


@dataclass(frozen=True, slots=True)
class _PartitionView:
    row: Row
    bar: SvgBar | None
    counts: list[tuple[str, int]]
    stuck: _Stuck | None
    removed: str
    """What retention has removed before it was settled; empty if nothing."""


@dataclass(frozen=True, slots=True)
class _Stuck:
    """Why a partition stands still, and what to do about it."""

    text: str
    counted: str
    """What the numbers of a full window count; empty for another trouble."""
    is_pinned: bool
    """Whether nothing new is delivered until the start offset is settled."""
    record: str
    """What is known of the record at the start offset; empty if nothing."""
    runs: Sequence[KnownRun]
    """Runs of workers that hold it."""
    holders: str
    """Members that may hold it, if no run is known."""
    todo: Sequence[str]
    """Commands, once the checks have found the same; and processes to end, if they are known."""


def routes(console: Console) -> list[Route]:
    async def show(request: Request) -> Response:
        wanted = request.query_params
        group, rows = await find_group(console, wanted.get("name", ""))
        view = console.watcher.view
        groups = view.figures.rows[TableView.GROUPS] if view.figures else ()
        processes = view.fleet.of_group(group.group) if view.fleet else ()
        sort = chosen(wanted, "sort", _SORTS)
        by_place = {(partition.topic, partition.partition): partition for partition in group.partitions}
        if sort != "place":
            rows = ordered(rows, lambda row: row[sort], descending=True)
        page = page_of(rows, wanted.get("page"), _PARTITIONS_ON_PAGE)
        shown = [by_place[str(row["topic"]), int(row["partition"] or 0)] for row in page.rows]
        pictures = [_picture(reading) for reading in shown]
        scale = scale_of(picture for picture in pictures if picture is not None)
        places = {f"{reading.topic}[{reading.partition}]" for reading in shown}
        findings = findings_of(view.findings or (), group.group, places)
        return console.render(
            request,
            "group.jinja",
            group=group,
            row=next(row for row in groups if row["group"] == group.group),
            topics=sorted({partition.topic for partition in group.partitions}),
            findings=findings[:_FINDINGS_ON_PAGE],
            more_findings=len(findings) - _FINDINGS_ON_PAGE,
            page=page,
            partitions=[
                _partition_view(group, row, reading, picture, scale, view)
                for row, reading, picture in zip(page.rows, shown, pictures, strict=True)
            ],
            scale=scale,
            states=[(class_of(standing), standing.text) for standing in Standing],
            workers=processes if view.fleet else None,
            unheard=[process for process in processes if process.handlers is None],
            most_unheard=_UNHEARD_ON_PAGE,
            members=page_of(group.members, wanted.get("members"), _MEMBERS_ON_PAGE),
            sort=sort,
        )

    return [Route("/group", show)]


def _picture(one: PartitionReading) -> Picture | None:
    if one.state is None:
        return None
    key = SharePartitionKey(one.group, one.topic_id, one.partition)
    return Picture(key, one.topic, one.state, one.end, one.progress)


def _partition_view(
    group: GroupReading,
    row: Row,
    one: PartitionReading,
    picture: Picture | None,
    scale: BarScale,
    view: View,
) -> _PartitionView:
    progress = one.progress
    assert progress is not None, "the collector always has it"
    return _PartitionView(
        row,
        bar_of(picture, scale) if picture else None,
        [(standing.text, count) for standing, count in picture.counts().items()] if picture else [],
        _stuck(group, row, progress, view),
        removed(progress) if progress.removed else "",
    )


def _stuck(group: GroupReading, row: Row, one: PartitionProgress, view: View) -> _Stuck | None:
    members, quiet = assigned_members(group, one), row["stalled_seconds"]
    place = (group.group, one.topic, one.partition)
    runs: Sequence[KnownRun] = ()
    if is_pinned := one.is_window_full and bool(group.members):
        text = full_window(one)
        if view.fleet and one.start_offset is not None:
            runs = view.fleet.runs_about((*place, one.start_offset))
    elif isinstance(quiet, float):
        runs = view.fleet.longest_runs(place) if view.fleet else ()
        text = standing_still(one, quiet) if runs else stalled(one, members, quiet)
    else:
        return None
    return _Stuck(
        text,
        about_window(one) if is_pinned else "",
        is_pinned,
        first_record_history(one, time.time()),
        runs,
        possible_holders(members) if is_pinned else "",
        [*map(_end_run, runs if is_pinned else ()), *todo_of(view.findings or (), group.group, name_of(one))],
    )


def _end_run(held: KnownRun) -> str:
    identity, run = held.process.identity, held.run
    who = f"process {identity.pid} on {identity.host}" if identity else f"the process at {held.process.url}"
    return f"# {who} holds offset {run.offset}: let handler {held.handler.health.handler} finish, or end the process"


def findings_of(findings: Iterable[CheckResult], group: str, shown: Collection[str]) -> list[CheckResult]:
    """What is wrong, but for partitions that the page shows, such as orders[0]: there, it says what is wrong now."""
    return [
        finding
        for finding in findings
        if finding.check == check_of(group) and finding.level in _WRONG and finding.place not in shown
    ]


def todo_of(findings: Iterable[CheckResult], group: str, place: str) -> tuple[str, ...]:
    """What to do about a partition; empty until the checks have found what is wrong with it."""
    for finding in findings:
        if (finding.check, finding.place) == (check_of(group), place):
            return finding.todo
    return ()
