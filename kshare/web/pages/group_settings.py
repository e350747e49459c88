"""A group's settings: where they come from, what brokers allow; and changes of one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kshare.admin import configs
from kshare.admin.configs import ConfigResource
from kshare.admin.expected_starts import RESET
from kshare.admin.results import ConfigEntry
from kshare.admin.routing import Router
from kshare.admin.setting_choices import BY_DURATION, choices_of
from kshare.doctor.check_result import CheckResult, unknown
from kshare.doctor.dead_letter_topics import judge_dead_letter_topic
from kshare.doctor.group_settings import check_of
from kshare.errors import BrokerError, ConfigError, EncodeError, NotAuthorized
from kshare.monitor.dead_letter_topics import BROKERS_DECIDE_BY, DEAD_LETTER_TOPIC, require_dead_letter_name
from kshare.monitor.snapshot import GroupReading
from kshare.protocol.error_codes import ErrorCode
from kshare.web.console import Console, reason_of, text_of
from kshare.web.done_notes import note_of, redirect_with_note
from kshare.web.group_lookup import find_group
from kshare.web.rendering import one_line

_REFUSED = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION)
"""Errors about a value that the user has typed."""
_NOTHING: Mapping[str, str] = {}
_MOST_SHOWN = 200
"""Characters of a value that are part of an address."""


def routes(console: Console) -> list[Route]:
    async def show(request: Request) -> Response:
        group, _ = await find_group(console, request.query_params.get("name", ""))
        return await page(request, group)

    async def page(
        request: Request, group: GroupReading, problem: str | None = None, typed: Mapping[str, str] = _NOTHING
    ) -> Response:
        """`typed`: values that were refused because of the problem."""
        async with console.router() as router:
            entries = await configs.group_config(router, group.group)
            saved = note_of(console, request, "saved", "before", "after")
            topic = _dead_letter_topic(entries, saved)
            checked = await _checked(console, router, group.group, topic) if topic else None
        return console.render(
            request,
            "group_settings.jinja",
            status=400 if problem else 200,
            group=group,
            entries=entries,
            choices_of=choices_of,
            reset=RESET,
            by_duration=BY_DURATION,
            problem=problem,
            typed=typed,
            saved=saved,
            checked=checked,
        )

    async def change(request: Request) -> Response:
        form = await console.form(request)
        name, setting = text_of(form, "name"), text_of(form, "setting")
        value = None if text_of(form, "remove") else text_of(form, "value").strip()
        group, _ = await find_group(console, name)
        try:
            if value == BY_DURATION:
                value += text_of(form, "duration").strip()
                if value == BY_DURATION:
                    raise ConfigError(f"{RESET}: write how far back to start, such as P1DT12H or PT30M")
            if value == "":
                raise ConfigError(
                    f"{setting}: a value is missing; to use the default, choose Back to default"
                )
            async with console.router() as router:
                if value and setting == DEAD_LETTER_TOPIC:
                    await require_dead_letter_name(router, value)
                before = await _value(router, name, setting)
                async with console.change(
                    request, "change setting", name, setting=setting, before=before, value=value
                ):
                    await configs.alter(router, ConfigResource.GROUP, name, {setting: value}, is_trial=False)
        except (ConfigError, EncodeError, BrokerError) as error:
            if isinstance(error, BrokerError) and error.code not in _REFUSED:
                raise
            reason = reason_of(error)
            if isinstance(error, EncodeError):
                reason = f"{one_line(setting, _MOST_SHOWN)}: {reason}"
            return await page(request, group, reason, {setting: value} if value else {})
        shown = {"before": one_line(before or "", _MOST_SHOWN), "after": one_line(value or "", _MOST_SHOWN)}
        return redirect_with_note(
            console, request, "/group/settings", {"name": name, "saved": setting, **shown}
        )

    return [
        Route("/group/settings", show),
        Route("/group/settings", change, methods=["POST"]),
    ]


async def _value(router: Router, group: str, setting: str) -> str | None:
    """The value in force; None if the user may not read it, or the setting is unknown."""
    try:
        found = await configs.describe(router, ConfigResource.GROUP, group, keys=[setting])
    except NotAuthorized:
        return None
    return next((entry.value for entry in found if entry.name == setting), None)


def _dead_letter_topic(entries: Sequence[ConfigEntry], shown: Mapping[str, str]) -> str | None:
    """The group's dead-letter topic. Just after a change, brokers may still tell the one before."""
    if shown.get("saved") == DEAD_LETTER_TOPIC:
        return shown.get("after")
    return next((entry.value for entry in entries if entry.name == DEAD_LETTER_TOPIC), None)


async def _checked(console: Console, router: Router, group: str, topic: str) -> CheckResult:
    """Whether brokers will write dead letters to the topic: they accept any name."""
    try:
        brokers = await configs.broker_values(router, BROKERS_DECIDE_BY)
        return await judge_dead_letter_topic(router, console.server, group, topic, brokers)
    except BrokerError as error:
        return unknown(check_of(group), f"its dead-letter topic is {topic}, which can't be checked: {error}")
