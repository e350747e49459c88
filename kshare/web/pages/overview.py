"""The overview: all groups with their figures, and what the checks have found."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kshare.doctor.check_result import CheckLevel
from kshare.doctor.group_settings import check_of
from kshare.monitor.figures import Row, TableView
from kshare.web.console import Console
from kshare.web.paging import chosen, ordered, page_of

_PAGE_SIZE = 50
_MOST_FINDINGS = 20
COLUMNS = {
    "lag": ("Lag", "records that aren't settled yet"),
    "group": ("Group", "the share group"),
    "members": ("Members", "members of the group"),
    "written_per_second": (
        "Written/s",
        "records written to the group's partitions: it keeps up if it settles as many",
    ),
    "deliveries_per_second": ("Delivered/s", "deliveries that ended in any way"),
    "accepted_per_second": ("Accepted/s", "records accepted"),
    "released_per_second": ("Released/s", "records released, or whose locks expired"),
    "archived_per_second": ("Rejected/s", "records rejected, or archived after their last delivery"),
    "redelivery_share": (
        "Delivered again",
        "the share of deliveries after which the record was released, or its lock expired",
    ),
    "oldest_seconds": ("Oldest", "the age of the oldest unsettled record, and its share of the retention"),
    "window_use": (
        "Window",
        "how full the fullest in-flight window is; whole batches are acquired, so it may exceed its limit",
    ),
    "dead_letters": (
        "Dead letters",
        "records in the group's dead-letter topic, those settled included",
    ),
}
_LEFT_OUT = ("rights",)
"""Checks that need a group and its topics from the user."""
_LEVELS = (CheckLevel.PROBLEM, CheckLevel.WARNING, CheckLevel.UNKNOWN)


def routes(console: Console) -> list[Route]:
    async def overview(request: Request) -> Response:
        wanted = request.query_params
        view = console.watcher.view
        rows: list[Row] = list(view.figures.rows[TableView.GROUPS]) if view.figures else []
        name = wanted.get("q", "").casefold()
        sort = chosen(wanted, "sort", list(COLUMNS))
        descending = chosen(wanted, "order", ("up", "down") if sort == "group" else ("down", "up")) == "down"
        found = [row for row in rows if name in str(row["group"]).casefold()]
        found_at_all = [finding for finding in view.findings or () if finding.check not in _LEFT_OUT]
        findings = [finding for level in _LEVELS for finding in found_at_all if finding.level is level]
        return console.render(
            request,
            "overview.jinja",
            page=page_of(
                ordered(found, lambda row: row[sort], descending=descending), wanted.get("page"), _PAGE_SIZE
            ),
            all_groups=len(rows),
            trackers=sum(row["tracks_dead_letters"] is True for row in rows),
            columns=COLUMNS,
            sort=sort,
            is_descending=descending,
            findings=findings[:_MOST_FINDINGS],
            group_of={check_of(str(row["group"])): row["group"] for row in rows},
            is_trouble=any(finding.level is not CheckLevel.UNKNOWN for finding in findings),
            more_findings=len(findings) - _MOST_FINDINGS,
        )

    return [Route("/", overview)]
