"""Decides from two readings whether a share-partition that has members stands still, and since when. Pure.

A full in-flight window is known from what is stored. Locks aren't stored, so a window that is full of locks only shows
by nothing being settled, although records wait in both readings. The age of the oldest record tells an idle group,
which has just been given something to do, from a stalled one. Producers may say what they like about it: it counts
unless it is in the future. Nor does time count in which the group had no members: brokers don't tell when one joined,
so this is known from readings. `now` is in seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from kshare.admin.results import GroupDescription, Member, PartitionProgress
from kshare.admin.window_limits import USUAL_LIMIT
from kshare.errors import BrokerError
from kshare.monitor.oldest import UNREAD, Waiting
from kshare.monitor.snapshot import GroupReading, PartitionReading
from kshare.monitor.troubles import stalled
from kshare.state.share_records import SharePartitionKey

LONG_S, LONG_WITH_MUCH_TO_DO_S = 30.0, 5.0
"""30 s is the default lock duration: members that work settle something in this time. If more records wait than fit
into the in-flight window, it may be full of locks; then 5 s are enough."""


def assigned_members(group: GroupReading, one: PartitionProgress) -> list[Member]:
    """The members that are assigned the partition."""
    return [member for member in group.members if (one.topic, one.partition) in member.assignment]


def is_pinned(before: PartitionReading | None, one: PartitionReading) -> bool:
    """Whether the in-flight window is full, and its start offset is the same in both readings."""
    return bool(
        one.progress
        and one.progress.is_window_full
        and before is not None
        and before.start is not None
        and before.start == one.start
    )


def stalled_for(before: PartitionReading | None, one: PartitionReading, now: float) -> float | None:
    """For how many seconds nothing was settled or released although records wait; None if it isn't long enough.

    None as well if it isn't known which records wait, or the group may have none of them. If nothing was ever settled,
    they wait since the group was assigned the partition, at most.
    """
    progress = one.progress
    if progress is None or progress.changed_at is None or one.first is None or not one.waiting:
        return None
    if not one.has_records:
        return None
    if before is None or before.progress is None or not before.waiting:
        return None
    is_same = (before.start, before.progress.changed_at) == (one.start, progress.changed_at)
    oldest = one.oldest or 0.0
    quiet = now - max(
        progress.changed_at, oldest if oldest <= now else 0.0, one.members_since or progress.changed_at
    )
    return quiet if is_same and quiet > patience(one.waiting, progress.window_limit) else None


def is_undecided(before: PartitionReading | None, one: PartitionReading, now: float) -> bool:
    """Whether later readings may show a stall, or a longer one: the first that had members is too recent."""
    if one.members_since is None or is_pinned(before, one):
        return False
    longest = stalled_for(before, replace(one, members_since=None), now)
    known = stalled_for(before, one, now)
    return longest is not None and (known is None or known <= LONG_S < longest)


def patience(waiting: int, limit: int | None) -> float:
    """How many seconds without progress are too long, if so many records wait."""
    return LONG_WITH_MUCH_TO_DO_S if waiting > (limit or USUAL_LIMIT) else LONG_S


def known_members(described: Mapping[str, GroupDescription | BrokerError]) -> dict[str, tuple[Member, ...]]:
    """By group, without those that couldn't be described."""
    return {name: group.members for name, group in described.items() if isinstance(group, GroupDescription)}


class MembersSince:
    """Remembers from reading to reading. What was before the first one isn't known."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str, int], float] = {}

    def keep(self, groups: Collection[str]) -> None:
        """There are only these."""
        self._since = {place: since for place, since in self._since.items() if place[0] in groups}

    def look(self, members: Mapping[str, Sequence[Member]], now: float) -> None:
        """The members of these groups at this moment, in seconds since 1970. Of others, nothing new is known."""
        found = {
            (group, *place): self._since.get((group, *place), now)
            for group, some in members.items()
            for member in some
            for place in member.assignment
        }
        others = {place: since for place, since in self._since.items() if place[0] not in members}
        self._since = others | found

    def of(self, group: str, topic: str, partition: int) -> float | None:
        """Since when each reading has found a member that is assigned the partition; None if the last one hasn't."""
        return self._since.get((group, topic, partition))


class StallWatch:
    """Finds share-partitions that stand still since the previous look, for readers of stored state."""

    def __init__(self) -> None:
        self._before: dict[SharePartitionKey, PartitionReading] = {}
        self._members_since = MembersSince()

    def look(
        self,
        found: Mapping[SharePartitionKey, PartitionProgress],
        members: Mapping[str, tuple[Member, ...]],
        waiting: Mapping[SharePartitionKey, Waiting],
        now: float,
    ) -> dict[SharePartitionKey, str]:
        """What is said of those that are stalled; none at the first look. Full windows are another matter.

        `now`: seconds since 1970.
        """
        self._members_since.look(members, now)
        said: dict[SharePartitionKey, str] = {}
        readings: dict[SharePartitionKey, PartitionReading] = {}
        for where, progress in found.items():
            place, known = (progress.topic, progress.partition), waiting.get(where, UNREAD)
            reading = PartitionReading(
                where.group,
                *place,
                progress.start_offset,
                progress.end_offset or 0,
                progress.lag,
                None,
                None,
                known.since,
                progress,
                has_records=known.has_records,
                members_since=self._members_since.of(where.group, *place),
            )
            before = self._before.get(where)
            holders = [each for each in members.get(where.group, ()) if place in each.assignment]
            quiet = stalled_for(before, reading, now)
            if holders and quiet is not None and not is_pinned(before, reading):
                said[where] = stalled(progress, holders, quiet)
            readings[where] = reading
        self._before = readings
        return said
