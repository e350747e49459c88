"""The records that `kshare consume` has printed, and how they were acknowledged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from kshare.cli.terminal.wording import counted
from kshare.client.record import ShareRecord
from kshare.engine.events import Settled
from kshare.errors import AcknowledgeError

AckName = Literal["accept", "release", "reject"]
PAST: dict[str, str] = {"accept": "accepted", "release": "released", "reject": "rejected"}


@dataclass
class ConsumeReport:
    """What was shown, and what became of it."""

    is_open: bool = False
    """Whether there was a cluster at all."""
    shown: int = 0
    unreadable: int = 0
    """Not shown, and rejected for that."""
    words: Counter[str] = field(default_factory=Counter)
    late: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def settle(self, record: ShareRecord, word: AckName) -> bool:
        """Whether it wasn't too late."""
        try:
            getattr(record, word)()
        except AcknowledgeError:
            self.late += 1
            return False
        self.words[word] += 1
        return True

    def on_outcome(self, outcome: Settled) -> None:
        if outcome.error is not None:
            counts = outcome.counts()
            self.refused[str(outcome.error)] += sum(counts.get(word, 0) for word in ("accept", "reject"))

    @property
    def done(self) -> int:
        return self.shown + self.unreadable

    def text(self) -> str:
        said = ", ".join(f"{count} {PAST[word]}" for word, count in self.words.items())
        return f"{counted(self.shown, 'record')} shown{f': {said}' if said else ''}"

    def problem(self) -> str | None:
        problems = [
            f"{count} couldn't be settled: {reason}" for reason, count in self.refused.items() if count
        ]
        if self.late:
            problems.append(f"{self.late} came too late to be settled: their locks had run out")
        return "; ".join(problems) or None
