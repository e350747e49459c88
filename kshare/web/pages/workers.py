"""Worker processes: which there are, and what each is doing now, live."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kshare.web.console import Console
from kshare.web.known_fleet import KnownProcess, runs_of
from kshare.web.paging import chosen, ordered, page_of

_PROCESSES_ON_PAGE, _HANDLERS_ON_PAGE, _RUNS_ON_PAGE = 50, 50, 50
COLUMNS = {
    "host": ("Host", "the host that the process runs on"),
    "pid": ("Process", "the process id"),
    "version": ("kshare", "the version of kshare"),
    "groups": ("Groups", "the share groups of its handlers"),
    "state": ("State", "what its worker says, or why it wasn't asked or has said nothing"),
    "runs": ("Runs", "calls of handlers in progress"),
    "longest": ("Longest run", "how long the longest run has been going on"),
    "started": ("Running for", "how long ago the process was started"),
}
_NAMES = ("host", "version", "groups", "state")
"""Columns of texts, which are first sorted from a to z. Numbers are first sorted from the largest to the smallest."""


def routes(console: Console) -> list[Route]:
    async def show(request: Request) -> Response:
        wanted = request.query_params
        fleet = console.watcher.view.fleet
        group, text = wanted.get("group", ""), wanted.get("q", "").casefold()
        known = (fleet.of_group(group) if group else fleet.processes) if fleet else ()
        sort = chosen(wanted, "sort", list(COLUMNS))
        descending = chosen(wanted, "order", ("up", "down") if sort in _NAMES else ("down", "up")) == "down"
        found = [process for process in known if _matches(process, text)]
        return console.render(
            request,
            "workers.jinja",
            is_configured=console.config.workers.has_any,
            fleet=fleet,
            group=group,
            has_processes=bool(known),
            page=page_of(
                ordered(found, lambda one: _value(one, sort), descending=descending),
                wanted.get("page"),
                _PROCESSES_ON_PAGE,
            ),
            columns=COLUMNS,
            names=_NAMES,
            sort=sort,
            is_descending=descending,
        )

    async def show_process(request: Request) -> Response:
        wanted = request.query_params
        fleet = console.watcher.view.fleet
        process = fleet.process(wanted.get("id", "")) if fleet else None
        runs = runs_of(process) if process else []
        return console.render(
            request,
            "worker_process.jinja",
            fleet=fleet,
            process=process,
            handlers=page_of((process and process.handlers) or (), wanted.get("handlers"), _HANDLERS_ON_PAGE),
            runs=page_of(runs, wanted.get("page"), _RUNS_ON_PAGE),
            more_runs=((process and process.run_count) or 0) - len(runs),
        )

    return [Route("/workers", show), Route("/workers/process", show_process)]


def _matches(process: KnownProcess, text: str) -> bool:
    client_id = process.identity.client_id if process.identity else ""
    return any(text in word.casefold() for word in (process.host, process.url, client_id, *process.groups))


def _value(process: KnownProcess, column: str) -> object:
    values: dict[str, object] = {
        "host": process.host,
        "groups": ", ".join(process.groups),
        "state": process.state,
        "runs": process.run_count,
        "longest": process.longest_s,
    }
    if identity := process.identity:
        # The longest ago started first.
        values |= {"pid": identity.pid, "started": -identity.started_at, "version": identity.version}
    return values.get(column)
