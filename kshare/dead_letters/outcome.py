"""What became of a dead letter in a run that redrives or drops dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kshare.dead_letters.dead_letter import DeadLetter, Origin


class Fate(StrEnum):
    REDRIVEN = "redriven"
    DROPPED = "dropped"
    SKIPPED = "skipped"
    """The filters exclude it."""
    MOVED = "moved"
    """Written to its topic again, because the tracking group would have archived it."""
    DUPLICATE = "duplicate"
    """Settled, because the run has redriven or dropped a copy of it."""
    LEFT = "not redriven"
    """It can't be redriven."""
    FAILED = "failed"
    """It will be redelivered to the next run."""


@dataclass(frozen=True, slots=True)
class LetterOutcome:
    letter: DeadLetter
    fate: Fate
    written: Origin | None = None
    """Where its record was written to."""
    reason: str | None = None
    """Why it wasn't redriven or dropped, or will be redelivered all the same."""


OnOutcome = Callable[[LetterOutcome], None]


def ignore(outcome: LetterOutcome) -> None:
    """For callers to whom the counts are enough."""
