"""Tells the groups that keep track of redriven dead letters from those that process records.

They have members only during a redrive, and what they didn't redrive waits for the next one. So their lag is no
backlog, and that nobody reads it is no problem: totals, some checks of `kshare doctor` and the alert rules leave them
out.
"""

from __future__ import annotations

from collections.abc import Mapping

from kshare.monitor.snapshot import GroupReading, Snapshot

PREFIX = "kshare-dlq-"
"""`kshare dlq` and `kshare web` name them so, unless the user names another group."""


def is_tracking(group: str) -> bool:
    return group.startswith(PREFIX)


def topics_read(snapshot: Snapshot) -> Mapping[str, set[str]]:
    """The topics, by group. Groups that keep track of dead letters are left out."""
    return {group.group: _topics(group) for group in snapshot.groups if not is_tracking(group.group)}


def _topics(group: GroupReading) -> set[str]:
    """Without members, those that it has read: it gets what is written to them once it has members again."""
    if group.members:
        return {topic for member in group.members for topic in member.topics}
    return {partition.topic for partition in group.partitions}
