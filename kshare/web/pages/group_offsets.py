"""A group's offsets: a reset, of which a dry run comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kshare.admin import offsets
from kshare.admin.offsets import ResetPoint
from kshare.admin.results import OffsetReset
from kshare.errors import ConfigError, KshareError
from kshare.monitor.figures import Row
from kshare.monitor.snapshot import GroupReading
from kshare.web.console import Console, reason_of, status_of, text_of, user_of
from kshare.web.done_notes import note_of, redirect_with_note
from kshare.web.fields import time_of
from kshare.web.group_lookup import find_group

_MOST_DIGITS = 20
_RESETS = ("earliest", "latest", "time", "offset")
_FIELDS: Mapping[str, str] = {"topic": "", "to": _RESETS[0], "value": ""}


def routes(console: Console) -> list[Route]:
    async def show(request: Request) -> Response:
        """With what was chosen before, if the user wants to choose again."""
        wanted = request.query_params
        group, rows = await find_group(console, wanted.get("name", ""))
        return page(request, group, rows, {name: wanted.get(name, usual) for name, usual in _FIELDS.items()})

    def page(
        request: Request,
        group: GroupReading,
        rows: Sequence[Row],
        typed: Mapping[str, str],
        *,
        status: int = 200,
        problem: str | None = None,
        plan: Sequence[OffsetReset] | None = None,
    ) -> Response:
        """The form with what was typed, and why it was refused; or what it would change."""
        return console.render(
            request,
            "group_offsets.jinja",
            status=status,
            group=group,
            topics=list(dict.fromkeys(str(row["topic"]) for row in rows)),
            resets=_RESETS,
            typed=typed,
            problem=problem,
            plan=plan,
            done=note_of(console, request, "reset"),
        )

    async def reset(request: Request) -> Response:
        """First a dry run, which changes nothing; then the same form again, confirmed."""
        form = await console.form(request, is_change=False)
        is_confirmed = form.get("confirm") is not None
        if is_confirmed:
            console.access.check_change(user_of(request))
        group, rows = await find_group(console, text_of(form, "name"))
        typed = {name: text_of(form, name) for name in _FIELDS}
        try:
            if is_confirmed:
                count = await make(request, group.group, typed)
                note = {"name": group.group, "reset": str(count)}
                return redirect_with_note(console, request, "/group/offsets", note)
            async with console.router() as router:
                plan = await offsets.reset_offsets(
                    router, group.group, _reset_point(typed), _topics(typed), is_dry_run=True
                )
        except KshareError as error:
            return page(request, group, rows, typed, status=status_of(error), problem=reason_of(error))
        except HTTPException as refused:
            if refused.status_code != 400:
                raise
            return page(request, group, rows, typed, status=400, problem=refused.detail)
        return page(request, group, rows, typed, plan=plan)

    async def make(request: Request, group: str, typed: Mapping[str, str]) -> int:
        """Reset, and return of how many partitions. The audit log gets the old offsets first, to go back to them."""
        point = _reset_point(typed)
        async with console.router() as router:
            plan = await offsets.reset_offsets(router, group, point, _topics(typed), is_dry_run=True)
            async with console.change(
                request,
                "reset offsets",
                group,
                topic=typed["topic"] or "all",
                to=str(point),
                before=_before(plan),
                partitions=len(plan),
            ):
                await offsets.alter_offsets(
                    router, group, {(reset.topic, reset.partition): reset.after for reset in plan}
                )
        console.watcher.hurry()
        return len(plan)

    return [
        Route("/group/offsets", show),
        Route("/group/offsets", reset, methods=["POST"]),
    ]


def _before(plan: Sequence[OffsetReset]) -> dict[str, dict[int, int | None]]:
    """The offsets before, by topic and partition; None where the group had not begun."""
    found: dict[str, dict[int, int | None]] = defaultdict(dict)
    for reset in plan:
        found[reset.topic][reset.partition] = reset.before
    return found


def _topics(typed: Mapping[str, str]) -> dict[str, None] | None:
    return {typed["topic"]: None} if typed["topic"] else None


def _reset_point(typed: Mapping[str, str]) -> ResetPoint:
    value = typed["value"]
    match typed["to"]:
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case "time":
            time = time_of(value, "time")
            if time is None:
                raise ConfigError("a time is missing: write it as 2026-01-31T12:00:00")
            return time
        case "offset" if value.strip().isascii() and value.strip().isdigit() and len(value) < _MOST_DIGITS:
            return int(value)
        case "offset":
            raise ConfigError(f"{value[:_MOST_DIGITS]!r} isn't an offset: write a whole number")
    raise ConfigError(f"offsets can be reset to {', '.join(_RESETS)}, not to {typed['to']!r}")
