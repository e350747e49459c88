"""Finds share-partitions that stand still since the previous look, for readers of stored state. Without IO."""

from __future__ import annotations

from collections.abc import Mapping

from kshare.admin.results import Member, PartitionProgress
from kshare.monitor.members_since import MembersSince
from kshare.monitor.oldest import UNREAD, Waiting
from kshare.monitor.snapshot import PartitionReading
from kshare.monitor.stalls import is_pinned, stalled_for
from kshare.monitor.troubles import stalled
from kshare.state.share_records import SharePartitionKey


class StallWatch:
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
        for where, one in found.items():
            place, end, known = (one.topic, one.partition), one.end_offset or 0, waiting.get(where, UNREAD)
            reading = PartitionReading(
                where.group,
                *place,
                one.start_offset,
                end,
                one.lag,
                None,
                None,
                known.since,
                one,
                has_records=known.has_records,
                members_since=self._members_since.of(where.group, *place),
            )
            before = self._before.get(where)
            holders = [each for each in members.get(where.group, ()) if place in each.assignment]
            quiet = stalled_for(before, reading, now)
            if holders and quiet is not None and not is_pinned(before, reading):
                said[where] = stalled(one, holders, quiet)
            readings[where] = reading
        self._before = readings
        return said
