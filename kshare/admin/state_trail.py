"""The history in the records of `__share_group_state`: when states last changed, and which records were archived.

It goes back as far as brokers have kept the records. Times are by the brokers' clocks, in seconds since 1970.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kshare.protocol.messages import ShareUpdateValue
from kshare.state.share_records import (
    UNINITIALIZED_START_OFFSET,
    AppliedRecord,
    SharePartitionKey,
    StoredState,
    ranges_in,
)


@dataclass(slots=True)
class StateTrail:
    """The history of one share-partition."""

    start_since: float
    """Since when the first unsettled record has been the same, at the latest: older history may be gone."""
    changed_at: float
    """When a state was last stored."""
    archived: Counter[int] = field(default_factory=Counter)
    """The number of archived records by delivery count."""


class StateTrails:
    def __init__(self) -> None:
        self.of: dict[SharePartitionKey, StateTrail] = {}

    def note(self, reported: AppliedRecord, timestamp_ms: int) -> None:
        """Take note of a record that was applied."""
        now, after, before = timestamp_ms / 1000, reported.after, reported.before
        if after is None:
            self.of.pop(reported.where, None)
            return
        trail = self.of.get(reported.where)
        if trail is None:
            trail = self.of[reported.where] = StateTrail(now, now)
        elif before is None or (after is not before and after.first_open() != before.first_open()):
            trail.start_since = now
        if isinstance(reported.message, ShareUpdateValue) and reported.is_applied:
            trail.changed_at = now
            for deliveries, size in _newly_archived(reported):
                trail.archived[deliveries] += size


def _newly_archived(reported: AppliedRecord) -> Iterator[tuple[int, int]]:
    """Yield delivery count and number of records, without those that were archived before: updates may repeat them."""
    before = reported.before
    for one in ranges_in(reported.message) if reported.message is not None else ():
        if one.state != StoredState.ARCHIVED:
            continue
        if before is None or before.start_offset == UNINITIALIZED_START_OFFSET:
            yield one.deliveries, one.size
            continue
        size = sum(each.size for each in before.covering(one.first, one.last) if not each.is_settled)
        if size:
            yield one.deliveries, size
