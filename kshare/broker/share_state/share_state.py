"""The durable state of one share-partition, and which requests may change it.

    event      | requires                              | does
    -----------+---------------------------------------+------------------------------------------------------------
    initialize | state epoch not below the known one   | a snapshot: new state epoch and start, no batches
    read       | leader epoch not below the known one  | a higher leader epoch is stored, and fences lower ones
    write      | both epochs not below the known ones  | an update; after a number of them, a snapshot of everything
    summary    | nothing                               |
    delete     | nothing                               | a tombstone

A higher state epoch means that the share group's offsets were reset; a higher leader epoch, that the partition has a
new leader. Only a read increases the fence for leaders, because a leader reads before it writes.

Pure: writes nothing. `ShareState` is written by the coordinator, and restored by replaying the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kshare.broker.request_error import RequestError
from kshare.broker.share_state.state_batches import StateBatch, combine
from kshare.protocol.error_codes import ErrorCode

UNKNOWN_START = -1


@dataclass(slots=True, frozen=True)
class StateUpdate:
    """The content of a write. -1 means no start offset, or no count."""

    state_epoch: int
    leader_epoch: int
    start: int
    settled: int
    """The number of records in flight that need no further delivery. The lag doesn't include them."""
    batches: tuple[StateBatch, ...] = ()


@dataclass(slots=True)
class ShareState:
    """The stored state of a share-partition."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    """The stored leader epoch."""
    fence: int = 0
    """The highest leader epoch that has read the state. Initializing the state again doesn't reset it."""
    start: int = UNKNOWN_START
    settled: int = -1
    batches: list[StateBatch] = field(default_factory=list)
    updates: int = 0
    """The number of updates since the last snapshot."""
    created: int = 0
    written: int = 0

    def check_leader(self, leader_epoch: int) -> None:
        if 0 <= leader_epoch < self.fence:
            raise RequestError(ErrorCode.FENCED_LEADER_EPOCH)

    def check_state(self, state_epoch: int) -> None:
        if 0 <= state_epoch < self.state_epoch:
            raise RequestError(ErrorCode.FENCED_STATE_EPOCH)

    def initialized(self, state_epoch: int, start: int, now: int) -> ShareState:
        return ShareState(
            self.snapshot_epoch + 1,
            state_epoch,
            0,
            self.fence,
            start,
            settled_before_use(start),
            created=now,
            written=now,
        )

    def after(self, state_update: StateUpdate, now: int) -> ShareState:
        """The state after an update."""
        start = self.start if state_update.start == UNKNOWN_START else state_update.start
        combined = combine(self.batches, state_update.batches, start)
        return replace(
            self,
            start=start,
            settled=state_update.settled,
            batches=combined,
            updates=self.updates + 1,
            written=now,
        )

    def as_snapshot(self) -> ShareState:
        return replace(self, snapshot_epoch=self.snapshot_epoch + 1, updates=0)


def settled_before_use(start: int) -> int:
    """0 if the start offset is known, as nothing after it is settled yet. Otherwise -1: unknown."""
    return -1 if start == UNKNOWN_START else 0
