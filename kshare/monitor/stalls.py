"""Decides from two readings whether a share-partition that has members stands still, and since when. Pure.

A full in-flight window is known from what is stored. Locks aren't stored, so a window that is full of locks only shows
by nothing being settled, although records wait in both readings. The age of the oldest record tells an idle group,
which has just been given something to do, from a stalled one. Producers may say what they like about it: it counts
unless it is in the future. Nor does time count in which the group had no members. `now` is in seconds since 1970.
"""

from __future__ import annotations

from dataclasses import replace

from kshare.admin.results import Member, PartitionProgress
from kshare.admin.window_limits import USUAL_LIMIT
from kshare.monitor.snapshot import GroupReading, PartitionReading

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
