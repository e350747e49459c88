"""The history in the records of `__share_group_state`: when states last changed, and what became of records.

It goes back as far as brokers have kept the records. Times are by the brokers' clocks, in seconds since 1970.

A released record and one whose lock expired are stored alike. Brokers write a snapshot in place of every so many
updates, and remove what is older than the snapshots: what a snapshot changes is counted, too, including what updates
said that were removed before they were read. A snapshot holds all states from its start offset on, so deliveries in
between show by the rise of delivery counts. Of records that its start offset has passed it doesn't say whether they
were accepted or archived, and after how many deliveries: they count as accepted in their next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kshare.protocol.messages import ShareSnapshotValue
from kshare.state.share_records import (
    UNINITIALIZED_START_OFFSET,
    AppliedRecord,
    SharePartitionKey,
    SharePartitionState,
    StateRange,
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
    accepted: int = 0
    released: int = 0
    """How often records were released, or their locks expired."""
    archived: Counter[int] = field(default_factory=Counter)
    """The number of archived records by delivery count."""
    deliveries: int = 0
    """How many deliveries have ended, in whatever way."""
    since: float = field(default=0.0, compare=False)
    """When the first record was stored that is known."""


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
            trail = self.of[reported.where] = StateTrail(now, now, since=now)
        elif before is None or (after is not before and after.first_open() != before.first_open()):
            trail.start_since = now
        if reported.message is None or before is None or not reported.is_applied:
            return  # there is nothing to compare with
        is_snapshot = isinstance(reported.message, ShareSnapshotValue)
        if before.state_epoch != after.state_epoch:
            return  # the offsets were reset
        changes = [
            *_changes(before, ranges_in(reported.message)),
            *(_passed(before, after.start_offset) if is_snapshot else ()),
        ]
        if changes or not is_snapshot:
            trail.changed_at = now
        for old, new in changes:
            _count(trail, old, new)


def _changes(
    before: SharePartitionState, stored: list[StateRange]
) -> Iterator[tuple[StateRange, StateRange]]:
    """Yield pieces of the stored ranges that were in another state before, as they were and as they are."""
    for new in stored:
        for old in before.covering(new.first, new.last):
            if not old.is_settled and new.weight > old.weight:
                yield old, new._replace(first=old.first, last=old.last)


def _passed(before: SharePartitionState, start: int) -> Iterator[tuple[StateRange, StateRange]]:
    """Yield the unsettled records that a new start offset has passed."""
    if before.start_offset == UNINITIALIZED_START_OFFSET:
        return
    for old in before.open_ranges(start):
        yield old, old._replace(state=StoredState.ACKNOWLEDGED, deliveries=old.deliveries + 1)


def _count(trail: StateTrail, old: StateRange, new: StateRange) -> None:
    rise = max(0, new.deliveries - old.deliveries)
    trail.deliveries += rise * new.size
    # Every delivery but the last ended with a release.
    trail.released += (rise if new.state == StoredState.AVAILABLE else max(0, rise - 1)) * new.size
    match new.state:
        case StoredState.ACKNOWLEDGED:
            trail.accepted += new.size
        case StoredState.ARCHIVED:
            trail.archived[new.deliveries] += new.size
