"""Checks whether a group makes progress: compares two readings for stalls, growing lag and lost records.

seen                                                    | said
--------------------------------------------------------+-------------------------------------------------------
a full in-flight window whose start doesn't move        | problem: nothing new is delivered
records removed from the topic before they were settled | problem: they are lost
lag, and no members, or none with the partition         | warning, with how fast it grows
lag, members, and nothing settled for long              | warning
a group that doesn't exist                              | ok (if its name resembles another: see `group_names`)
records archived after their last delivery, or soon     | warning, unless there is a dead-letter topic
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

import anyio

from kshare.admin import configs, groups, offsets
from kshare.admin.progress import ProgressReader
from kshare.admin.results import GroupDescription, PartitionProgress
from kshare.admin.window_limits import OF_BROKERS, OF_GROUP, USUAL_LIMIT
from kshare.cli.cluster.cluster_info import ClusterInfo
from kshare.cli.doctor.checks.group_names import NOT_THERE
from kshare.cli.doctor.checks.group_settings import check_of, chosen_groups, set_command
from kshare.cli.terminal.check_result import CheckResult, ok, problem, unknown, warning
from kshare.cli.terminal.progress_text import duration, full_window, how_long, name_of, removed
from kshare.cli.terminal.wording import counted
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode

_BETWEEN_LOOKS_S = 2.0
_LONG_S, _LONG_WITH_MUCH_TO_DO_S = 30.0, 5.0
"""30 s is the default lock duration: members that work settle something in this time. If more records wait than fit
into the in-flight window, it may be full of locks, which brokers don't store; then 5 s are enough."""
_LIMIT, _USUAL_LIMIT = "share.delivery.count.limit", 5
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_MEMBERS_NAMED = 3
_HIGHEST_OF_BROKERS = 10_000
"""The highest limit of the in-flight window that Kafka allows where it is only a setting of brokers."""


@dataclass(slots=True)
class _GroupReading:
    group: GroupDescription
    rows: list[PartitionProgress]

    @property
    def lag(self) -> int:
        return sum(_lag(one) for one in self.rows)


@dataclass(slots=True)
class _Settings:
    deliveries: int
    has_dead_letters: bool
    has_window_limit: bool
    """Whether groups have a limit of their own, as since Kafka 4.3."""
    highest_window_limit: int | None
    """The highest that brokers allow; None if we may not read it."""


async def group_health(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    reader = ProgressReader(info.router)
    names = await chosen_groups(info)
    first = {name: reading for name in names if (reading := await _read_group(info, reader, name))}
    if any(reading.lag for reading in first.values()):
        await anyio.sleep(_BETWEEN_LOOKS_S)
    for name in names:
        if name not in first:
            # Before its first consumer joins, a group doesn't exist, which is no problem.
            yield ok(check_of(name), f"health not checked: {NOT_THERE}")
            continue
        before = first[name]
        now = await _read_group(info, reader, name) if before.lag else before
        found = list(_findings(info, before, now or before, await _settings(info, name)))
        for finding in found or [_healthy(now or before)]:
            yield finding


async def _read_group(info: ClusterInfo, reader: ProgressReader, group: str) -> _GroupReading | None:
    """None if the group doesn't exist."""
    try:
        described = await groups.describe_share_group(info.router, group)
        group_offsets = await offsets.share_group_offsets(info.router, group, None)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return None
    return _GroupReading(described, (await reader.read({group: group_offsets}))[group])


async def _settings(info: ClusterInfo, group: str) -> _Settings:
    entries = await configs.group_config(info.router, group)
    of_group = {one.name: one.value for one in entries}
    highest = next((one.highest for one in entries if one.name == OF_GROUP), str(_HIGHEST_OF_BROKERS))
    limit = of_group.get(_LIMIT)
    if limit is None:  # before Kafka 4.3 it is only a setting of brokers
        try:
            limit = (await info.broker_settings(f"group.{_LIMIT}")).get(f"group.{_LIMIT}")
        except BrokerError:
            limit = None
    return _Settings(
        int(limit or _USUAL_LIMIT),
        bool(of_group.get(_DEAD_LETTERS)),
        OF_GROUP in of_group,
        int(highest) if highest else None,
    )


def _findings(
    info: ClusterInfo, before: _GroupReading, now: _GroupReading, settings: _Settings
) -> Iterator[CheckResult]:
    earlier = {(one.topic, one.partition): one for one in before.rows}
    idle: list[PartitionProgress] = []
    for one in now.rows:
        previous = earlier.get((one.topic, one.partition))
        if one.removed:
            yield _removed(info, now, one)
        if _lag(one) and not _members_of(now, one):
            idle.append(one)
        elif one.is_window_full and previous is not None and previous.start_offset == one.start_offset:
            yield _pinned(info, now, one, settings)
        elif _has_stalled(previous, one):
            yield _stalled(now, one)
        if not settings.has_dead_letters:
            yield from _delivery_limit_reached(now, one, settings)
    if idle:
        yield _unread(before, now, idle)
    if any(one.window_end is None and _lag(one) for one in now.rows):
        yield unknown(
            check_of(now.group.group),
            "full in-flight windows and the delivery count limit were not checked: "
            "this needs the permission to read __share_group_state",
        )


def _pinned(
    info: ClusterInfo, reading: _GroupReading, one: PartitionProgress, settings: _Settings
) -> CheckResult:
    group, server = reading.group.group, info.server
    since = how_long(one, time.time())
    members = _members_of(reading, one)
    holders = f"{'one of ' if len(members) > 1 else ''}{_named(members)}"
    return problem(
        check_of(group),
        f"{full_window(one)}. Nothing new is delivered until offset {one.start_offset} is settled"
        f"{f'; {since}' if since else ''}. It is held by {holders}",
        f"# have that member accept, reject or release offset {one.start_offset}, or end its process; to find it:",
        f"kshare groups describe {group} --members --bootstrap-server {server}",
        *_more_room(info, group, one, settings),
    )


def _more_room(info: ClusterInfo, group: str, one: PartitionProgress, settings: _Settings) -> tuple[str, ...]:
    """How to raise the limit. Empty if the highest limit that brokers allow isn't more than what is in flight."""
    span = one.window_span or 0
    larger_window = span + _limit(one)
    if settings.highest_window_limit is not None:
        larger_window = min(larger_window, settings.highest_window_limit)
    if larger_window <= span:
        return ()
    if settings.has_window_limit:
        return "# until then, a larger window:", set_command(info, group, f"{OF_GROUP}={larger_window}")
    return (
        "# until then, a larger window, in server.properties of every broker; then restart it:",
        f"{OF_BROKERS}={larger_window}",
    )


def _removed(info: ClusterInfo, reading: _GroupReading, one: PartitionProgress) -> CheckResult:
    return problem(
        check_of(reading.group.group),
        f"{removed(one)}: the group never gets them. Consume sooner, or keep records longer",
        f"kafka-configs.sh --bootstrap-server {info.server} --alter --entity-type topics --entity-name {one.topic} "
        "--add-config retention.ms=MILLISECONDS,retention.bytes=-1",
    )


def _unread(before: _GroupReading, now: _GroupReading, idle: list[PartitionProgress]) -> CheckResult:
    earlier = {(one.topic, one.partition): _lag(one) for one in before.rows}
    lag = sum(map(_lag, idle))
    increase = lag - sum(earlier.get((one.topic, one.partition), 0) for one in idle)
    names = ", ".join(sorted({one.topic for one in idle}))
    reason = f"no member is assigned {names}" if now.group.members else "it has no members"
    grows = f", {increase} more than {_BETWEEN_LOOKS_S:g} s ago" if increase > 0 else ""
    return warning(
        check_of(now.group.group),
        f"{reason}, and {counted(lag, 'record')} of {names} {'waits' if lag == 1 else 'wait'}{grows}: "
        "start its consumers",
    )


def _has_stalled(previous: PartitionProgress | None, one: PartitionProgress) -> bool:
    if previous is None or not _lag(one) or one.changed_at is None:
        return False
    is_same = (previous.start_offset, previous.changed_at) == (one.start_offset, one.changed_at)
    patience = _LONG_WITH_MUCH_TO_DO_S if _lag(one) > _limit(one) else _LONG_S
    return is_same and time.time() - one.changed_at > patience


def _limit(one: PartitionProgress) -> int:
    return one.window_limit or USUAL_LIMIT


def _stalled(reading: _GroupReading, one: PartitionProgress) -> CheckResult:
    assert one.changed_at is not None
    lag, members = _lag(one), _members_of(reading, one)
    quiet = duration(time.time() - one.changed_at)
    return warning(
        check_of(reading.group.group),
        f"{name_of(one)}: {counted(lag, 'record')} {'waits' if lag == 1 else 'wait'} from offset {one.start_offset} "
        f"on, and nothing was settled or released for {quiet}. It is assigned to {_named(members)}: either they hold "
        f"records without settling them, up to {_limit(one)} (a full in-flight window), or they don't fetch; "
        "kshare trace shows which",
    )


def _delivery_limit_reached(
    reading: _GroupReading, one: PartitionProgress, settings: _Settings
) -> Iterator[CheckResult]:
    """Without a dead-letter topic, archived records are lost to the group."""
    given_up = sum(count for deliveries, count in one.archived if deliveries >= settings.deliveries)
    last = one.most_deliveries is not None and one.most_deliveries >= settings.deliveries - 1
    if not given_up and not last:
        return
    reasons = []
    if given_up:
        were = "was" if given_up == 1 else "were"
        reasons.append(
            f"{counted(given_up, 'record')} {were} archived after {settings.deliveries} deliveries"
        )
    if last:
        reasons.append(f"some records were delivered {one.most_deliveries} of {settings.deliveries} times")
    yield warning(
        check_of(reading.group.group),
        f"{name_of(one)}: {' and '.join(reasons)}, and no dead-letter topic is set: archived records are lost",
        "# with Kafka 4.4: set a dead-letter topic that has errors.deadletterqueue.group.enable=true",
        f"kshare groups config set {reading.group.group} {_DEAD_LETTERS}=dlq.{reading.group.group}",
    )


def _healthy(reading: _GroupReading) -> CheckResult:
    if not reading.rows:
        return ok(check_of(reading.group.group), "health not checked: it has read nothing yet")
    lag = reading.lag
    count = len(reading.group.members)
    return ok(
        check_of(reading.group.group),
        f"{counted(count, 'member')}, {counted(lag, 'record')} to settle, no stalled partitions",
    )


def _members_of(reading: _GroupReading, one: PartitionProgress) -> list[str]:
    return [
        f"{member.client_id} ({member.member_id}) on {member.host.removeprefix('/')}"
        for member in reading.group.members
        if (one.topic, one.partition) in member.assignment
    ]


def _named(members: Iterable[str]) -> str:
    names = list(members)
    more = len(names) - _MEMBERS_NAMED
    return ", ".join(names[:_MEMBERS_NAMED]) + (f" and {more} more" if more > 0 else "")


def _lag(one: PartitionProgress) -> int:
    """If the broker doesn't report it: the records after the start offset."""
    if one.lag is not None:
        return one.lag
    if one.start_offset is None or one.end_offset is None:
        return 0
    return one.end_offset - one.start_offset
