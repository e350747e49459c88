"""The durable state of one share-partition, and who may change it.

    event      | asks for                              | does
    -----------+---------------------------------------+------------------------------------------------------------
    initialize | state epoch not below the known one   | a snapshot: new state epoch and start, no batches
    read       | leader epoch not below the known one  | a higher leader epoch is remembered, and fences from now on
    write      | both epochs not below the known ones  | an update; every so often a snapshot of all that is known
    summary    | nothing                               |
    delete     | nothing                               | a tombstone

A state epoch is the share group's way of saying that offsets were reset; a leader epoch tells an old leader of the
partition from the present one. Only reading raises the fence for leaders: a leader reads before it writes.

Pure: nothing is written here. `ShareState` says what is to be written, and takes it back when it is replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kshare.broker.request_error import RequestError
from kshare.broker.share_state.state_batches import StateBatch, combine
from kshare.protocol.error_codes import ErrorCode

UNKNOWN_START = -1


@dataclass(slots=True, frozen=True)
class StateUpdate:
    """What a write says. -1 for a start or a count that isn't said."""

    state_epoch: int
    leader_epoch: int
    start: int
    settled: int
    """Records in flight that need no further delivery: what a lag leaves out."""
    batches: tuple[StateBatch, ...] = ()


@dataclass(slots=True)
class ShareState:
    """All that is known of a share-partition."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    """As it was written."""
    fence: int = 0
    """The greatest leader epoch that has read: outlives a new initialization."""
    start: int = UNKNOWN_START
    settled: int = -1
    batches: list[StateBatch] = field(default_factory=list)
    updates: int = 0
    """Since the snapshot."""
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
        """What is known once `state_update` holds."""
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
    """Where a start is known nothing behind it is settled yet."""
    return -1 if start == UNKNOWN_START else 0
