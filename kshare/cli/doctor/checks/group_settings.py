"""Checks group configs that brokers override, and subscriptions to topics that don't exist."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from kshare.admin import configs, groups, offsets
from kshare.admin.results import ConfigEntry
from kshare.cli.doctor.checks.cluster_info import Patient
from kshare.cli.doctor.checks.finding import Finding, ok, problem, warning
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode

_HEARTBEAT, _SESSION = "share.heartbeat.interval.ms", "share.session.timeout.ms"
_RESET = "share.auto.offset.reset"


async def group_settings(patient: Patient) -> AsyncIterator[Finding]:
    for group in await chosen_groups(patient):
        settings = {one.name: one for one in await configs.group_config(patient.router, group)}
        found = [
            *_outside(patient, group, settings.values()),
            *_impatient(patient, group, settings),
            *await _at_the_end(patient, group, settings),
            *await _missing_topics(patient, group),
        ]
        for finding in found or [ok(check_of(group), "no configuration problems")]:
            yield finding


async def chosen_groups(patient: Patient) -> tuple[str, ...]:
    """Those that we were asked about, or all that can be seen."""
    if patient.groups:
        return patient.groups
    return await visible_groups(patient)


async def visible_groups(patient: Patient) -> tuple[str, ...]:
    return tuple(one.group for one in await groups.list_groups(patient.router, ("share",), ()))


def set_command(patient: Patient, group: str, setting: str) -> str:
    return f"kshare groups config set {group} {setting} --bootstrap-server {patient.server}"


def check_of(group: str) -> str:
    return f"group {group}"


def _outside(patient: Patient, group: str, settings: Iterable[ConfigEntry]) -> list[Finding]:
    """Bounds may have been moved since the group was set: brokers then go by the bound."""
    return [
        warning(
            check_of(group),
            f"{one.name} is {one.value}, and brokers allow {one.lowest} to {one.highest}: they go by the bound",
            set_command(patient, group, f"{one.name}={bound}"),
        )
        for one in settings
        if one.value is not None
        for bound, is_beyond in (
            (one.lowest, one.lowest is not None and int(one.value) < int(one.lowest)),
            (one.highest, one.highest is not None and int(one.value) > int(one.highest)),
        )
        if is_beyond
    ]


def _impatient(patient: Patient, group: str, settings: dict[str, ConfigEntry]) -> list[Finding]:
    """One heartbeat that is late must not cost a member its place."""
    if _HEARTBEAT not in settings or _SESSION not in settings:
        return []
    heartbeat, session = int(settings[_HEARTBEAT].value or 0), int(settings[_SESSION].value or 0)
    if session >= 2 * heartbeat:
        return []
    return [
        warning(
            check_of(group),
            f"{_SESSION} is {session} with a heartbeat every {heartbeat}: a member whose heartbeat is a little late is "
            "thrown out, and its records are delivered again",
            set_command(patient, group, f"{_SESSION}={3 * heartbeat}"),
        )
    ]


async def _at_the_end(patient: Patient, group: str, settings: dict[str, ConfigEntry]) -> list[Finding]:
    """The first surprise of everybody: a new group sees nothing of what is there already."""
    reset = settings.get(_RESET)
    if reset is None or reset.value != "latest" or reset.source == "group":
        return []
    try:
        known = await offsets.share_group_offsets(patient.router, group, None)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        known = []
    if any(one.start_offset is not None for one in known):
        return []
    return [
        warning(
            check_of(group),
            f"it has read nothing yet, and {_RESET} is latest: it will begin at the end, records that are there "
            "already never come",
            set_command(patient, group, f"{_RESET}=earliest"),
        )
    ]


async def _missing_topics(patient: Patient, group: str) -> list[Finding]:
    try:
        members = (await groups.describe_share_group(patient.router, group)).members
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return []
    there = {one.name for one in (await patient.router.metadata(None)).topics}
    return [
        problem(
            check_of(group),
            f"{one.client_id} ({one.member_id}) on {one.host} waits for topic {topic}, which isn't there, or which "
            "this user may not see",
            f"kafka-topics.sh --bootstrap-server {patient.server} --create --topic {topic}",
        )
        for one in members
        for topic in one.topics
        if topic not in there
    ]
