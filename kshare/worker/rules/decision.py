"""How the call of a handler has ended, and what is decided about its record, as one value. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class RunResult(StrEnum):
    """How a run of a handler ended."""

    RETURNED = "returned"
    FAILED = "failed"
    """It raised."""
    CANCELLED = "cancelled"
    """By `time_limit`, because the lock was lost, or because the worker stops."""
    POSTPONED = "postponed"
    """It raised `InProgress`: another member is processing a copy of the record."""


class RecordOutcome(StrEnum):
    """What becomes of a record, or has become of it."""

    ACCEPTED = "accepted"
    FILTERED = "filtered"
    """Accepted without the handler, because of `only`."""
    HELD = "held"
    """Held by the worker for another attempt. It isn't settled yet."""
    MOVED = "moved"
    """Copied to a retry topic, then accepted."""
    DEAD_LETTER = "dead letter"
    """Copied to the topic for dead letters, or kept by the function for them, then rejected. If brokers write dead
    letters for the group, accepted: otherwise there would be two."""
    REJECTED = "rejected"
    """Given up, without a dead letter."""
    RELEASED = "released"
    """Handed back to the group."""
    LOST = "lost"
    """Its lock was lost: the broker delivers it again."""
    SUPERSEDED = "superseded"
    """Accepted without the handler: it is the copy of a run that goes on, or is over."""
    KEPT = "kept"
    """Nothing is done with it now: the worker has it, and decides again later."""

    @property
    def label(self) -> str:
        """As metrics and traces name it: a record that is given up counts as dead, with a dead letter or without."""
        is_given_up = self in (RecordOutcome.DEAD_LETTER, RecordOutcome.REJECTED)
        return "dead" if is_given_up else str(self)


class Decision(NamedTuple):
    """What is to be done with a record, and why."""

    outcome: RecordOutcome
    delay: float = 0.0
    """HELD and MOVED: seconds until the next attempt, which any worker may make if it is moved."""
    counts: bool = False
    """Whether this was an attempt. ACCEPTED: whether its handler has done it."""
    reason: str = ""
    """DEAD_LETTER and REJECTED: what the dead letter says."""
    error: BaseException | None = None
    """What the handler has raised."""
    apart: int = 0
    """MOVED: how many times in a row it is moved now because its deliveries ended without a result."""
    is_again: bool = False
    """MOVED: a copy that isn't due yet is replaced by an identical one, whose delivery count begins at 0. KEPT: it is
    tried again at once."""
    pending: Decision | None = None
    """HELD and KEPT: what is to be done then, because it couldn't be done before."""
    rule: str = ""
    """The name of the rule that has decided."""

    def __str__(self) -> str:
        return str(self.outcome)


ACCEPT = Decision(RecordOutcome.ACCEPTED)
RELEASE = Decision(RecordOutcome.RELEASED)
LOSE = Decision(RecordOutcome.LOST)
KEEP = Decision(RecordOutcome.KEPT)

TOLD = tuple(
    outcome for outcome in RecordOutcome if outcome not in (RecordOutcome.SUPERSEDED, RecordOutcome.KEPT)
)
"""What observers are told."""
