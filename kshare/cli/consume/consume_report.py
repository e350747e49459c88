"""The records that `kshare consume` has printed, and how they were acknowledged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from kshare.client.record import ShareRecord
from kshare.engine.events import Acknowledged
from kshare.errors import AcknowledgeError
from kshare.wording import counted

AckName = Literal["accept", "release", "reject"]
PAST: dict[str, str] = {"accept": "accepted", "release": "released", "reject": "rejected"}


@dataclass
class ConsumeReport:
    """Counts printed records and their acknowledgements."""

    is_open: bool = False
    """Whether the consumer was opened."""
    shown: int = 0
    unreadable: int = 0
    """Records that couldn't be deserialized, and were rejected instead of printed."""
    words: Counter[str] = field(default_factory=Counter)
    late: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def settle(self, record: ShareRecord, word: AckName) -> bool:
        """Acknowledge a record. Returns False if it is too late."""
        try:
            getattr(record, word)()
        except AcknowledgeError:
            self.late += 1
            return False
        self.words[word] += 1
        return True

    def on_outcome(self, outcome: Acknowledged) -> None:
        if outcome.error is not None:
            counts = outcome.counts()
            self.refused[str(outcome.error)] += sum(counts.get(word, 0) for word in ("accept", "reject"))

    @property
    def done(self) -> int:
        return self.shown + self.unreadable

    def text(self) -> str:
        words = Counter(self.words)
        words["release"] += self.done - words.total() - self.late  # when the consumer was closed
        counts = ", ".join(f"{count} {PAST[word]}" for word, count in words.items() if count > 0)
        return f"{counted(self.shown, 'record')} shown{f': {counts}' if counts else ''}"

    def problem(self) -> str | None:
        problems = [
            f"{count} couldn't be settled: {reason}" for reason, count in self.refused.items() if count
        ]
        if self.late:
            problems.append(f"{self.late} couldn't be settled: their locks had expired")
        return "; ".join(problems) or None
