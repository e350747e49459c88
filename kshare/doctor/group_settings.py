"""Checks group configs that brokers override, and subscriptions to topics that don't exist.

That a group has no problems of this kind is said after its dead-letter topic was checked, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from kshare.admin import groups, offsets
from kshare.admin.expected_starts import EARLIEST_RESET, RESET
from kshare.admin.results import ConfigEntry
from kshare.doctor.check_result import CheckLevel, CheckResult, ok, problem, unknown, warning
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.releases import COLON_IN_NAME, SKIPPED_RECORDS, minor_release
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import shell_word

_HEARTBEAT, _SESSION = "share.heartbeat.interval.ms", "share.session.timeout.ms"


async def group_settings(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    for group in await chosen_groups(info):
        settings = {one.name: one for one in await info.group_config(group)}
        found = [
            *_colon_in_name(info, group),
            *_outside(info, group, settings.values()),
            *_short_session_timeout(info, group, settings),
            *await _at_the_end(info, group, settings),
            *await _skipped_records(info, group, settings),
            *await _missing_topics(info, group),
        ]
        for finding in found:
            yield finding
        if all(one.level is CheckLevel.OK for one in found):
            info.well_configured.add(group)


async def chosen_groups(info: ClusterInfo) -> tuple[str, ...]:
    """The groups that the user named, or all visible groups."""
    if info.groups:
        return tuple(name for name in info.groups if name not in info.misspelt)
    return await visible_groups(info)


async def visible_groups(info: ClusterInfo) -> tuple[str, ...]:
    return tuple(group.group for group in await groups.list_groups(info.router, ("share",), ()))


def set_command(server: str, group: str, setting: str) -> str:
    return f"kshare groups config set {shell_word(group)} {shell_word(setting)} --bootstrap-server {server}"


def check_of(group: str) -> str:
    return f"group {group}"


def _outside(info: ClusterInfo, group: str, settings: Iterable[ConfigEntry]) -> list[CheckResult]:
    """Bounds may have changed since the group was configured: brokers then use the bound."""
    return [
        warning(
            check_of(group),
            f"{setting.name} is {setting.value}, and brokers allow {setting.lowest} to {setting.highest}: they use "
            "the bound instead",
            set_command(info.server, group, f"{setting.name}={bound}"),
        )
        for setting in settings
        if setting.value is not None
        for bound, is_beyond in (
            (setting.lowest, setting.lowest is not None and int(setting.value) < int(setting.lowest)),
            (setting.highest, setting.highest is not None and int(setting.value) > int(setting.highest)),
        )
        if is_beyond
    ]


def _colon_in_name(info: ClusterInfo, group: str) -> list[CheckResult]:
    if ":" not in group:
        return []
    releases = {minor_release(connection.versions) for connection in info.connections.values()}
    text = f"{COLON_IN_NAME.text}. Choose a name without a colon, or upgrade the brokers"
    if releases & COLON_IN_NAME.has:
        return [warning(check_of(group), text)]
    if releases & COLON_IN_NAME.may_have:
        return [unknown(check_of(group), f"brokers run Kafka 4.2, exact release unknown: {text}")]
    return []


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
            set_command(info.server, group, f"{_SESSION}={3 * heartbeat}"),
        )
    ]


async def _at_the_end(info: ClusterInfo, group: str, settings: dict[str, ConfigEntry]) -> list[CheckResult]:
    """A common surprise: by default, a new group doesn't receive existing records."""
    reset = settings.get(RESET)
    if reset is None or reset.value != "latest" or reset.source == "group":
        return []
    try:
        group_offsets = await offsets.share_group_offsets(info.router, group, None)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        group_offsets = []
    if any(offset.start_offset is not None for offset in group_offsets):
        return []
    # Brokers only store where a group starts when it settles something.
    text = (
        f"it has settled nothing yet, and {RESET} is latest: it starts at the end, again whenever all its members have "
        "left, and never receives records that exist by then. Setting it to earliest has no effect until they have left"
        if group_offsets
        else f"it has read nothing yet, and {RESET} is latest: it will start at the end and never receive existing "
        "records"
    )
    return [warning(check_of(group), text, set_command(info.server, group, f"{RESET}=earliest"))]


async def _skipped_records(
    info: ClusterInfo, group: str, settings: dict[str, ConfigEntry]
) -> list[CheckResult]:
    """Brokers of one release would be enough, if they coordinate the group.

    A warning while there are partitions that the group hasn't noticed. Otherwise a note, because it only matters once
    partitions are added.
    """
    reset = settings.get(RESET)
    releases = {minor_release(connection.versions) for connection in info.connections.values()}
    if reset is None or reset.value == EARLIEST_RESET or not releases & SKIPPED_RECORDS.has:
        return []
    read = await _read_partitions(info, group)
    if not read:
        return []
    unnoticed = [
        f"{topic}[{number}]"
        for topic, numbers in (await info.partitions()).items()
        if topic in read
        for number in numbers
        if number not in read[topic]
    ]
    if not unnoticed:
        return [
            ok(
                check_of(group),
                f"{RESET} is {reset.value}: before you add partitions, set it to earliest: {SKIPPED_RECORDS.text}",
            )
        ]
    more = f" and {len(unnoticed) - 1} more" if len(unnoticed) > 1 else ""
    return [
        warning(
            check_of(group),
            f"its members haven't noticed {unnoticed[0]}{more} yet, and {RESET} is {reset.value}: "
            f"{SKIPPED_RECORDS.text}. Before they do:",
            set_command(info.server, group, f"{RESET}=earliest"),
        )
    ]


async def _read_partitions(info: ClusterInfo, group: str) -> dict[str, set[int]]:
    """The partitions that the group reads, by topic; none if it doesn't exist."""
    try:
        rows = await offsets.share_group_offsets(info.router, group, None)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return {}
    found: dict[str, set[int]] = {}
    for row in rows:
        found.setdefault(row.topic, set()).add(row.partition)
    return found


async def _missing_topics(info: ClusterInfo, group: str) -> list[CheckResult]:
    try:
        members = (await groups.describe_share_group(info.router, group)).members
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return []
    existing = await info.partitions()
    return [
        problem(
            check_of(group),
            f"{member.client_id} ({member.member_id}) on {member.host} waits for topic {topic}, which doesn't exist, "
            "or which this user may not see",
            f"kshare topics create {shell_word(topic)} --bootstrap-server {info.server}",
        )
        for member in members
        for topic in member.topics
        if topic not in existing
    ]
