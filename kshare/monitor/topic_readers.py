"""What share groups read, as the monitor knows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kshare.monitor.snapshot import GroupReading, Snapshot
from kshare.monitor.tracking_groups import is_tracking


def topics_read(snapshot: Snapshot) -> Mapping[str, set[str]]:
    """The topics, by group. Groups that keep track of dead letters are left out."""
    return {group.group: _topics(group) for group in snapshot.groups if not is_tracking(group.group)}


def _topics(group: GroupReading) -> set[str]:
    """Without members, those that it has read: it gets what is written to them once it has members again."""
    if group.members:
        return {topic for member in group.members for topic in member.topics}
    return {partition.topic for partition in group.partitions}
