"""What the records of `__share_group_state` tell beyond the present: since when it is so, and what was given up.

It goes back as far as brokers have kept them. Times are the brokers', in seconds since 1970.
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
    """Of one share-partition."""

    start_since: float
    """When the first record that isn't settled became that; it may be longer ago than brokers remember."""
    changed_at: float
    """When anything was stored last."""
    archived: Counter[int] = field(default_factory=Counter)
    """Records archived, by their number of deliveries."""


class StateTrails:
    def __init__(self) -> None:
        self.of: dict[SharePartitionKey, StateTrail] = {}

    def note(self, reported: AppliedRecord, timestamp_ms: int) -> None:
        """A record of the topic that was taken in."""
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
    """Deliveries and number; what was archived before may be said again."""
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
