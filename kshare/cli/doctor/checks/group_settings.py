"""Checks group configs that brokers override, and subscriptions to topics that don't exist."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from kshare.admin import configs, groups, offsets
from kshare.admin.results import ConfigEntry
from kshare.cli.cluster.cluster_info import ClusterInfo
from kshare.cli.terminal.check_result import CheckResult, ok, problem, warning
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode

_HEARTBEAT, _SESSION = "share.heartbeat.interval.ms", "share.session.timeout.ms"
_RESET = "share.auto.offset.reset"


async def group_settings(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    for group in await chosen_groups(info):
        settings = {one.name: one for one in await configs.group_config(info.router, group)}
        found = [
            *_outside(info, group, settings.values()),
            *_short_session_timeout(info, group, settings),
            *await _at_the_end(info, group, settings),
            *await _missing_topics(info, group),
        ]
        for finding in found or [ok(check_of(group), "no configuration problems")]:
            yield finding


async def chosen_groups(info: ClusterInfo) -> tuple[str, ...]:
    """The groups that the user named, or all visible groups."""
    if info.groups:
        return tuple(name for name in info.groups if name not in info.misspelt)
    return await visible_groups(info)


async def visible_groups(info: ClusterInfo) -> tuple[str, ...]:
    return tuple(one.group for one in await groups.list_groups(info.router, ("share",), ()))


def set_command(info: ClusterInfo, group: str, setting: str) -> str:
    return f"kshare groups config set {group} {setting} --bootstrap-server {info.server}"


def check_of(group: str) -> str:
    return f"group {group}"


def _outside(info: ClusterInfo, group: str, settings: Iterable[ConfigEntry]) -> list[CheckResult]:
    """Bounds may have changed since the group was configured: brokers then use the bound."""
    return [
        warning(
            check_of(group),
            f"{one.name} is {one.value}, and brokers allow {one.lowest} to {one.highest}: they use the bound instead",
            set_command(info, group, f"{one.name}={bound}"),
        )
        for one in settings
        if one.value is not None
        for bound, is_beyond in (
            (one.lowest, one.lowest is not None and int(one.value) < int(one.lowest)),
            (one.highest, one.highest is not None and int(one.value) > int(one.highest)),
        )
        if is_beyond
    ]


def _short_session_timeout(
    info: ClusterInfo, group: str, settings: dict[str, ConfigEntry]
) -> list[CheckResult]:
    """One late heartbeat must not remove a member from the group."""
    if _HEARTBEAT not in settings or _SESSION not in settings:
        return []
    heartbeat, session = int(settings[_HEARTBEAT].value or 0), int(settings[_SESSION].value or 0)
    if session >= 2 * heartbeat:
        return []
    return [
        warning(
            check_of(group),
            f"{_SESSION} is {session} with a heartbeat every {heartbeat}: a member whose heartbeat is a little late is "
            "removed from the group, and its records are redelivered",
            set_command(info, group, f"{_SESSION}={3 * heartbeat}"),
        )
    ]


async def _at_the_end(info: ClusterInfo, group: str, settings: dict[str, ConfigEntry]) -> list[CheckResult]:
    """A common surprise: by default, a new group doesn't receive existing records."""
    reset = settings.get(_RESET)
    if reset is None or reset.value != "latest" or reset.source == "group":
        return []
    try:
        group_offsets = await offsets.share_group_offsets(info.router, group, None)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        group_offsets = []
    if any(one.start_offset is not None for one in group_offsets):
        return []
    return [
        warning(
            check_of(group),
            f"it has read nothing yet, and {_RESET} is latest: it will start at the end and never receive "
            "existing records",
            set_command(info, group, f"{_RESET}=earliest"),
        )
    ]


async def _missing_topics(info: ClusterInfo, group: str) -> list[CheckResult]:
    try:
        members = (await groups.describe_share_group(info.router, group)).members
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return []
    existing = {one.name for one in (await info.router.metadata(None)).topics}
    return [
        problem(
            check_of(group),
            f"{one.client_id} ({one.member_id}) on {one.host} waits for topic {topic}, which doesn't exist, or which "
            "this user may not see",
            f"kafka-topics.sh --bootstrap-server {info.server} --create --topic {topic}",
        )
        for one in members
        for topic in one.topics
        if topic not in existing
    ]
