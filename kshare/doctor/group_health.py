"""Checks whether a group makes progress: compares two readings for stalls, growing lag and lost records.

seen                                                    | said
--------------------------------------------------------+-------------------------------------------------------
a full in-flight window whose start doesn't move        | problem: nothing new is delivered
records removed from the topic before they were settled | problem: they are lost
lag, and no members, or none with the partition         | warning, with how fast it grows
lag, members, and nothing settled for long, or ever     | perhaps a window full of locks: a problem, once it is
                                                        | sure; before, a warning
a group that doesn't exist                              | ok (if its name resembles another: see `group_names`)
records archived after their last delivery, or soon     | warning, unless there is a dead-letter topic
records rejected                                        | ok, but said: members may have kept copies
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from kshare.admin.results import ConfigEntry, PartitionProgress
from kshare.admin.window_limits import OF_BROKERS, OF_GROUP, larger_limit
from kshare.doctor.check_result import CheckResult, ok, trouble, unknown, warning
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.commands import set_command, topic_config_command
from kshare.doctor.group_names import NOT_THERE
from kshare.doctor.group_settings import check_of, chosen_groups
from kshare.doctor.readings import Readings, lag_of, progress_of
from kshare.monitor.dead_letter_topics import DEAD_LETTER_TOPIC
from kshare.monitor.severities import Trouble
from kshare.monitor.snapshot import GroupReading, PartitionReading
from kshare.monitor.stalls import LONG_S, assigned_members, is_pinned, stalled_for
from kshare.monitor.tracking_groups import is_tracking
from kshare.monitor.troubles import first_record, full_window, name_of, removed, stalled, unknown_lags
from kshare.wording import counted, shell_word

_HIGHEST_OF_BROKERS = 10_000
"""The highest limit of the in-flight window that Kafka allows where it is only a setting of brokers."""


async def group_health(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    readings = await info.readings(await chosen_groups(info))
    for name in await chosen_groups(info):
        group = readings.groups.get(name)
        if group is None:
            # Before its first consumer joins, a group doesn't exist, which is no problem.
            yield ok(check_of(name), f"health not checked: {NOT_THERE}")
            continue
        entries = await info.group_config(name)
        window = next((entry for entry in entries if entry.name == OF_GROUP), None)
        found = [*_findings(info, readings, group, window)]
        for finding in (*(found or [_healthy(group)]), *_rejected(info, group)):
            yield finding


def _findings(
    info: ClusterInfo, readings: Readings, group: GroupReading, window: ConfigEntry | None
) -> Iterator[CheckResult]:
    """`window`: the limit of the group's in-flight windows; None before Kafka 4.3, where only brokers have one."""
    idle: list[PartitionReading] = []
    tracks_dead_letters = is_tracking(group.group)
    for reading in group.partitions:
        one, before = progress_of(reading), readings.earlier(reading)
        if one.removed:
            yield _removed(info, group, one)
        if not assigned_members(group, one):
            if lag_of(reading):
                idle.append(reading)
        elif is_pinned(before, reading):
            yield _pinned(info, readings, group, one, window)
        elif (quiet := stalled_for(before, reading, readings.now.time)) is not None:
            yield _stalled(info, group, one, quiet)
        if not group.settings.dead_letter_topic and not tracks_dead_letters:
            yield from _delivery_limit_reached(group, one)
    if idle and not tracks_dead_letters:
        yield _unread(readings, group, idle)
    if any(progress_of(partition).window_end is None and lag_of(partition) for partition in group.partitions):
        yield unknown(
            check_of(group.group),
            "full in-flight windows and the delivery count limit were not checked: "
            "this needs the permission to read __share_group_state",
        )


def _pinned(
    info: ClusterInfo,
    readings: Readings,
    group: GroupReading,
    one: PartitionProgress,
    window: ConfigEntry | None,
) -> CheckResult:
    return trouble(
        Trouble.WINDOW_PINNED,
        check_of(group.group),
        f"{full_window(one)}. Nothing new is delivered until offset {one.start_offset} is settled. "
        f"{first_record(one, assigned_members(group, one), readings.now.time)}",
        f"# have the member that holds it accept, reject or release offset {one.start_offset}, "
        "or end its process; to find it:",
        *_look(info, group),
        *_more_room(info, group, one, window),
        place=name_of(one),
    )


def _stalled(info: ClusterInfo, group: GroupReading, one: PartitionProgress, quiet: float) -> CheckResult:
    check, text = check_of(group.group), stalled(one, assigned_members(group, one), quiet)
    look, place = _look(info, group), name_of(one)
    if quiet < LONG_S:  # members that settle large batches at once look the same
        return warning(check, text, *look, place=place)
    return trouble(Trouble.STALLED, check, text, *look, place=place)


def _look(info: ClusterInfo, group: GroupReading) -> tuple[str, ...]:
    return (f"kshare groups describe {shell_word(group.group)} --members --bootstrap-server {info.server}",)


def _more_room(
    info: ClusterInfo, group: GroupReading, one: PartitionProgress, window: ConfigEntry | None
) -> tuple[str, ...]:
    """How to raise the limit. Empty if the highest limit that brokers allow isn't more than what is in flight."""
    span, limit = one.window_span or 0, group.settings.window_limit
    larger_window, highest = larger_limit(span, limit), window.highest if window else _HIGHEST_OF_BROKERS
    reason = f"room for {limit:,} more behind the {span:,} offsets in flight, rounded up"
    if highest and larger_window > int(highest):
        larger_window, reason = int(highest), "the largest that brokers allow"
    if larger_window <= span:
        return ()
    if window:
        command = set_command(info.server, group.group, f"{OF_GROUP}={larger_window}")
        return f"# until then, a larger window ({reason}):", command
    return (
        f"# until then, a larger window ({reason}), in server.properties of every broker; then restart it:",
        f"{OF_BROKERS}={larger_window}",
    )


def _removed(info: ClusterInfo, group: GroupReading, one: PartitionProgress) -> CheckResult:
    return trouble(
        Trouble.RECORDS_REMOVED,
        check_of(group.group),
        f"{removed(one)}: the group never gets them. Consume sooner, or keep records longer",
        topic_config_command(info.server, one.topic, "retention.ms=MILLISECONDS,retention.bytes=-1"),
    )


def _unread(readings: Readings, group: GroupReading, idle: list[PartitionReading]) -> CheckResult:
    lag = sum(map(lag_of, idle))
    increase = lag - sum(lag_of(before) for reading in idle if (before := readings.earlier(reading)))
    names = ", ".join(sorted({reading.topic for reading in idle}))
    reason = f"no member is assigned {names}" if group.members else "it has no members"
    elapsed = readings.now.moment - readings.before.moment
    grows = f" ({elapsed:.0f} s before, it was {increase} fewer)" if increase > 0 else ""
    return trouble(
        Trouble.WITHOUT_MEMBERS,
        check_of(group.group),
        f"{reason}, and {counted(lag, 'record')} of {names} {'waits' if lag == 1 else 'wait'}{grows}: "
        "start its consumers",
    )


def _delivery_limit_reached(group: GroupReading, one: PartitionProgress) -> Iterator[CheckResult]:
    """Without a dead-letter topic, archived records are lost to the group."""
    limit = group.settings.delivery_limit
    given_up = sum(count for deliveries, count in one.archived if deliveries >= limit)
    last = one.most_deliveries is not None and one.most_deliveries >= limit - 1
    if not given_up and not last:
        return
    reasons = []
    if given_up:
        were = "was" if given_up == 1 else "were"
        reasons.append(f"{counted(given_up, 'record')} {were} archived after {limit} deliveries")
    if last:
        reasons.append(f"some records were delivered {one.most_deliveries} of {limit} times")
    yield trouble(
        Trouble.ARCHIVES_WITHOUT_DEAD_LETTERS,
        check_of(group.group),
        f"{name_of(one)}: {' and '.join(reasons)}, and no dead-letter topic is set: archived records are lost",
        "# with Kafka 4.4: set a dead-letter topic that has errors.deadletterqueue.group.enable=true",
        f"kshare groups config set {shell_word(group.group)} {DEAD_LETTER_TOPIC}={shell_word(f'dlq.{group.group}')}",
    )


def _rejected(info: ClusterInfo, group: GroupReading) -> Iterator[CheckResult]:
    """Not a warning: whoever rejects knows it, and kshare's workers write dead letters of their own."""
    archived = [each for partition in group.partitions for each in progress_of(partition).archived]
    count = sum(count for deliveries, count in archived if deliveries < group.settings.delivery_limit)
    if count and not group.settings.dead_letter_topic and not is_tracking(group.group):
        were, copies = ("was", "copy of it") if count == 1 else ("were", "copies of them")
        topic = info.self_written.get(group.group)
        what = (
            f"brokers kept no {copies}: no dead-letter topic is set"
            if topic is None
            else f"members write dead letters to topic {topic}"
        )
        yield ok(
            check_of(group.group),
            f"{counted(count, 'record')} {were} rejected, and {what} (transaction markers count as rejected)",
        )


def _healthy(group: GroupReading) -> CheckResult:
    if not group.partitions:
        return ok(check_of(group.group), "health not checked: it has read nothing yet")
    lag = sum(map(lag_of, group.partitions))
    unknown = unknown_lags(partition.progress for partition in group.partitions if partition.progress)
    members = counted(len(group.members), "member")
    if unknown is not None:
        return ok(check_of(group.group), f"{members}, no stalled partitions; {unknown}")
    return ok(check_of(group.group), f"{members}, {counted(lag, 'record')} to settle, no stalled partitions")
