"""Two readings of the groups to check, some seconds apart, which several checks compare. Taken when first needed.

The second reading is only taken if something waits in a group; otherwise it is the first. It is repeated while members
that have perhaps just joined may turn out to hold records without settling them.
"""

from __future__ import annotations

from dataclasses import replace

import anyio

from kshare.admin import groups, offsets
from kshare.admin.results import GroupListing, PartitionProgress
from kshare.admin.routing import Router
from kshare.monitor.collect import Collector
from kshare.monitor.figures import by_place
from kshare.monitor.snapshot import PartitionReading, Snapshot
from kshare.monitor.stalls import MembersSince, is_undecided
from kshare.protocol.error_codes import ErrorCode

BETWEEN_S = 2.0


class Readings:
    def __init__(self, before: Snapshot, now: Snapshot) -> None:
        self.before, self.now = before, now
        self.groups = {group.group: group for group in now.groups}
        """The groups that exist, as last read."""
        self._earlier = by_place(before)

    def earlier(self, one: PartitionReading) -> PartitionReading | None:
        return self._earlier.get((one.group, one.topic, one.partition))

    def is_undecided(self) -> bool:
        """Whether later readings may show a stall. It is decided within half a minute."""
        return any(
            is_undecided(self.earlier(partition), partition, self.now.time)
            for group in self.now.groups
            for partition in group.partitions
        )


async def take_readings(
    router: Router, names: tuple[str, ...], members_since: MembersSince | None = None
) -> Readings:
    """Raises what a group's coordinator responds, for example that we lack a permission.

    With `members_since`, which others have seen, doesn't wait until it is sure of stalls: it is for repeated readings.
    """
    if not names:
        none = Snapshot(0.0, 0.0)
        return Readings(none, none)
    collector = Collector(router, members_since=members_since)
    before = await _read(router, collector, names)
    partitions = [partition for group in before.groups for partition in group.partitions]
    if not any(lag_of(partition) or partition.start is None for partition in partitions):
        return Readings(before, before)
    while True:
        await anyio.sleep(BETWEEN_S)
        readings = Readings(before, await _read(router, collector, names))
        if members_since is not None or not readings.is_undecided():
            return readings


async def _read(router: Router, collector: Collector, names: tuple[str, ...]) -> Snapshot:
    """Groups aren't listed, because brokers may be unreachable that have nothing to do with these."""
    found = await collector.read_listed([GroupListing(name, "share", "", "share") for name in names])
    for group in found.groups:
        if group.problem and group.problem != ErrorCode.GROUP_ID_NOT_FOUND.name:
            # Asked again, for an error that says what to do.
            await groups.describe_share_group(router, group.group)
            await offsets.share_group_offsets(router, group.group, None)
    return replace(found, groups=tuple(group for group in found.groups if not group.problem))


def lag_of(one: PartitionReading) -> int:
    """If it isn't known: the records after the start offset, unless that is only a guess."""
    return 0 if one.lag is None and one.start is None else one.waiting


def progress_of(one: PartitionReading) -> PartitionProgress:
    assert one.progress is not None, "readings of clusters have it"
    return one.progress
