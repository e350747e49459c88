"""Checks group configs that brokers override, and subscriptions to topics that don't exist.

That a group has no problems of this kind is said after its dead-letter topic was checked, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator

from kshare.admin import groups, offsets
from kshare.admin.expected_starts import EARLIEST_RESET, RESET
from kshare.admin.results import ConfigEntry, PartitionOffset
from kshare.doctor.check_result import CheckLevel, CheckResult, ok, problem, unknown, warning
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.commands import create_command, set_command
from kshare.doctor.releases import COLON_IN_NAME, SKIPPED_RECORDS, MinorRelease, minor_release
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode

_HEARTBEAT, _SESSION = "share.heartbeat.interval.ms", "share.session.timeout.ms"


async def group_settings(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    for group in await chosen_groups(info):
        settings = {entry.name: entry for entry in await info.group_config(group)}
        found = [
            *_colon_in_name(info, group),
            *_outside(info, group, settings.values()),
            *_short_session_timeout(info, group, settings),
            *[finding async for finding in _at_the_end(info, group, settings)],
            *[finding async for finding in _skipped_records(info, group, settings)],
            *[finding async for finding in _missing_topics(info, group)],
        ]
        for finding in found:
            yield finding
        if all(finding.level is CheckLevel.OK for finding in found):
            info.well_configured.add(group)


async def chosen_groups(info: ClusterInfo) -> tuple[str, ...]:
    """The groups that the user named, or all visible groups."""
    if info.groups:
        return tuple(name for name in info.groups if name not in info.misspelt)
    return await visible_groups(info)


async def visible_groups(info: ClusterInfo) -> tuple[str, ...]:
    return tuple(group.group for group in await groups.list_groups(info.router, ("share",), ()))


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


def _releases(info: ClusterInfo) -> set[MinorRelease | None]:
    return {minor_release(connection.versions) for connection in info.connections.values()}


def _colon_in_name(info: ClusterInfo, group: str) -> Iterator[CheckResult]:
    if ":" not in group:
        return
    releases = _releases(info)
    text = f"{COLON_IN_NAME.text}. Choose a name without a colon, or upgrade the brokers"
    if releases & COLON_IN_NAME.has:
        yield warning(check_of(group), text)
    elif releases & COLON_IN_NAME.may_have:
        yield unknown(check_of(group), f"brokers run Kafka 4.2, exact release unknown: {text}")


def _short_session_timeout(
    info: ClusterInfo, group: str, settings: dict[str, ConfigEntry]
) -> Iterator[CheckResult]:
    """One late heartbeat must not remove a member from the group."""
    if _HEARTBEAT not in settings or _SESSION not in settings:
        return
    heartbeat, session = int(settings[_HEARTBEAT].value or 0), int(settings[_SESSION].value or 0)
    if session < 2 * heartbeat:
        yield warning(
            check_of(group),
            f"{_SESSION} is {session} with a heartbeat every {heartbeat}: a member whose heartbeat is a little late is "
            "removed from the group, and its records are redelivered",
            set_command(info.server, group, f"{_SESSION}={3 * heartbeat}"),
        )


async def _at_the_end(
    info: ClusterInfo, group: str, settings: dict[str, ConfigEntry]
) -> AsyncIterator[CheckResult]:
    """A common surprise: by default, a new group doesn't receive existing records."""
    reset = settings.get(RESET)
    if reset is None or reset.value != "latest" or reset.source == "group":
        return
    group_offsets = await _offsets(info, group)
    if any(offset.start_offset is not None for offset in group_offsets):
        return
    # Brokers only store where a group starts when it settles something.
    text = (
        f"it has settled nothing yet, and {RESET} is latest: it starts at the end, again whenever all its members have "
        "left, and never receives records that exist by then. Setting it to earliest has no effect until they have left"
        if group_offsets
        else f"it has read nothing yet, and {RESET} is latest: it will start at the end and never receive existing "
        "records"
    )
    yield warning(check_of(group), text, set_command(info.server, group, f"{RESET}=earliest"))


async def _skipped_records(
    info: ClusterInfo, group: str, settings: dict[str, ConfigEntry]
) -> AsyncIterator[CheckResult]:
    """Brokers of one release would be enough, if they coordinate the group.

    A warning while there are partitions that the group hasn't noticed. Otherwise a note, because it only matters once
    partitions are added.
    """
    reset = settings.get(RESET)
    releases = _releases(info)
    if reset is None or reset.value == EARLIEST_RESET or not releases & SKIPPED_RECORDS.has:
        return
    read: dict[str, set[int]] = defaultdict(set)
    for offset in await _offsets(info, group):
        read[offset.topic].add(offset.partition)
    if not read:
        return
    unnoticed = [
        f"{topic}[{number}]"
        for topic, numbers in (await info.partitions()).items()
        if topic in read
        for number in numbers
        if number not in read[topic]
    ]
    if unnoticed:
        more = f" and {len(unnoticed) - 1} more" if len(unnoticed) > 1 else ""
        yield warning(
            check_of(group),
            f"its members haven't noticed {unnoticed[0]}{more} yet, and {RESET} is {reset.value}: "
            f"{SKIPPED_RECORDS.text}. Before they do:",
            set_command(info.server, group, f"{RESET}=earliest"),
        )
    else:
        text = (
            f"{RESET} is {reset.value}: before you add partitions, set it to earliest: {SKIPPED_RECORDS.text}"
        )
        yield ok(check_of(group), text)


async def _offsets(info: ClusterInfo, group: str) -> list[PartitionOffset]:
    """None if the group doesn't exist."""
    try:
        return await offsets.share_group_offsets(info.router, group, None)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return []


async def _missing_topics(info: ClusterInfo, group: str) -> AsyncIterator[CheckResult]:
    try:
        members = (await groups.describe_share_group(info.router, group)).members
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return
    existing = await info.partitions()
    for member in members:
        for topic in member.topics:
            if topic not in existing:
                yield problem(
                    check_of(group),
                    f"{member.client_id} ({member.member_id}) on {member.host} waits for topic {topic}, which doesn't "
                    "exist, or which this user may not see",
                    create_command(info.server, topic),
                )
