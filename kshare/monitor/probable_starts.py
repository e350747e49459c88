"""Where groups with `share.auto.offset.reset=latest` have probably started in partitions of which they haven't settled
or released a single record.

The start is the end of the log when a member first fetched. Brokers only store when the group was assigned the
partition, which is shortly before. So the first record written since then probably is the first one to be settled; it
isn't certain enough to count the lag from it, but it shows that records wait.

Costs one Metadata and one or two ListOffsets requests for each such partition that members are assigned, whenever
records have been written to it, until that first record is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kshare.admin.log_offsets import log_offsets
from kshare.admin.results import Member, PartitionProgress
from kshare.admin.routing import Router
from kshare.errors import BrokerError
from kshare.monitor.side_by_side import side_by_side

_LATEST = "latest"

_Place = tuple[str, int, float]
"""Topic, partition, and when a group was assigned it."""


class ProbableStarts:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._known: dict[_Place, int] = {}
        self._looked_until: dict[_Place, int] = {}
        """The end of the log when there was no record yet."""

    async def fill_in(
        self, progress: Mapping[str, Sequence[PartitionProgress]], members: Mapping[str, Iterable[Member]]
    ) -> dict[str, list[PartitionProgress]]:
        """`members`: those of each group."""
        assigned = {
            group: {place for member in some for place in member.assignment}
            for group, some in members.items()
        }
        wanted = {
            place: row
            for group, rows in progress.items()
            for row in rows
            if (row.topic, row.partition) in assigned.get(group, ()) and (place := _place(row)) is not None
        }
        self._known = {place: start for place, start in self._known.items() if place in wanted}
        self._looked_until = {place: end for place, end in self._looked_until.items() if place in wanted}
        unknown = [
            place
            for place, row in wanted.items()
            if place not in self._known and self._looked_until.get(place) != row.end_offset
        ]
        await side_by_side(lambda place: self._look(place, wanted[place]), unknown)
        return {group: [self._filled_in(row) for row in rows] for group, rows in progress.items()}

    async def _look(self, place: _Place, one: PartitionProgress) -> None:
        topic, partition, since = place
        try:
            found = await log_offsets(self._router, [(topic, partition)], int(since * 1000))
        except BrokerError:  # the topic was deleted meanwhile, or has no leader
            return
        offset = found.get((topic, partition), -1)
        if offset >= 0:
            self._known[place] = offset
        elif one.end_offset is not None:
            self._looked_until[place] = one.end_offset

    def _filled_in(self, one: PartitionProgress) -> PartitionProgress:
        place = _place(one)
        start = None if place is None else self._known.get(place)
        return one if start is None else replace(one, expected_start=max(start, one.log_start_offset or 0))


def _place(one: PartitionProgress) -> _Place | None:
    """None if the start is known, or can't be found out."""
    if one.start_offset is not None or one.lag is not None or one.reset != _LATEST or one.changed_at is None:
        return None
    return one.topic, one.partition, one.changed_at
