"""The pages of the exporter.

page         | 200                                         | otherwise
-------------+---------------------------------------------+--------------------------------------------------------
/metrics     | always; without groups while there is no    |
             | fresh report                                |
/groups      | the groups of the last report, as JSON      | 503 while there is no fresh report
/groups/NAME | one group                                   | 404 if it doesn't exist, 503 if its lag is unknown
/live        | while it responds                            |
/ready       | once the cluster has been read              | 503 before

The name of a group is percent-encoded. An autoscaler that gets an error leaves what runs alone, but it would take a lag
of 0 for nothing to do. The exporter stays ready while the cluster is away, because it has something to tell:
`kshare_exporter_up 0`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from urllib.parse import unquote_to_bytes

import anyio

from kshare.exporter.metrics import CONTENT_TYPE, exporter_values, exposition_text, report_values
from kshare.exporter.report import Report
from kshare.exporter.watch import ClusterWatch
from kshare.http.messages import HttpRequest, HttpResponse
from kshare.monitor.figures import Row
from kshare.net.in_thread import in_thread
from kshare.wording import no_group

_GROUP = "/groups/"
_JSON = "application/json"
_KEYS = (
    *("group", "state", "members", "most_members", "partitions", "lag", "redelivered", "most_deliveries"),
    *("settled_per_second", "written_per_second", "oldest_seconds", "oldest_share", "window_use"),
    *(
        "pinned_windows",
        "stalled_partitions",
        "removed",
        "dead_letter_topic",
        "dead_letters",
        "tracks_dead_letters",
    ),
)


class ExporterPages:
    def __init__(self, watch: ClusterWatch, *, has_partitions: bool) -> None:
        self._watch = watch
        self._has_partitions = has_partitions
        self._making = anyio.Lock()
        self._made_of: Report | None = None
        self._made: dict[str, bytes] = {}
        """Made of this report, by page: many may ask for the same."""

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        match request.path:
            case "/metrics":
                found = await self._of_report(request.path, self._figures)
                # After the wait: otherwise it could say that the cluster is read, beside no groups.
                own = exposition_text(exporter_values(self._watch.state)).encode()
                return HttpResponse(200, CONTENT_TYPE, own, found or b"")
            case "/live":
                return HttpResponse.text(200, "live")
            case "/ready" if self._watch.is_ready:
                return HttpResponse.text(200, "ready")
            case "/ready":
                return HttpResponse.text(503, self._watch.problem)
            case "/groups":
                found = await self._of_report(request.path, _all_groups)
                return self._no_report() if found is None else HttpResponse(200, _JSON, b"", found)
        if request.path.startswith(_GROUP):
            report = self._watch.report
            return self._no_report() if report is None else _group(report, request.path.removeprefix(_GROUP))
        return HttpResponse.text(404, "there are /metrics, /groups, /groups/NAME, /live and /ready")

    def _no_report(self) -> HttpResponse:
        return _json(503, {"error": self._watch.problem})

    def _figures(self, found: Report) -> bytes:
        return exposition_text(report_values(found, has_partitions=self._has_partitions)).encode()

    async def _of_report(self, page: str, make: Callable[[Report], bytes]) -> bytes | None:
        """None if there is no fresh report. Made once for each, however often it is asked for: a cluster may have very
        many partitions. In a thread, so that probes get responses meanwhile."""
        async with self._making:
            found = self._watch.report
            if found is None:
                return None
            if found is not self._made_of:
                self._made_of, self._made = found, {}
            if page not in self._made:
                self._made[page] = await in_thread(partial(make, found))
            return self._made[page]


def _all_groups(found: Report) -> bytes:
    return _encoded({"time": found.time, "groups": [_form(row) for row in found.groups.values()]})


def _group(found: Report, encoded: str) -> HttpResponse:
    try:
        name = unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        return _json(400, {"error": "the name of the group isn't UTF-8, percent-encoded"})
    row = found.groups.get(name)
    if row is None:
        return _json(404, {"error": no_group(name, found.groups)})
    if row["lag"] is None:
        reason = row["lag_unknown"] or (
            "a partition has no leader, no member was assigned one yet, or the exporter lacks the permission to read "
            "the group"
        )
        return _json(
            503,
            {
                "group": name,
                "state": row["state"],
                "error": f"the lag of group {name!r} is unknown: {reason}",
            },
        )
    return _json(200, {"time": found.time, **_form(row)})


def _form(row: Row) -> Row:
    return {key: row[key] for key in _KEYS}


def _json(status: int, form: object) -> HttpResponse:
    return HttpResponse(status, _JSON, _encoded(form))


def _encoded(form: object) -> bytes:
    return f"{json.dumps(form)}\n".encode()
