"""What a dry run keeps of the dead letters that it has read: some rows, and counts of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from kshare.admin.reading_budget import LONGEST_VALUE
from kshare.dead_letters.duplicates import letter_identity
from kshare.dead_letters.redrive import PlannedRedrive

_MOST_ROWS, _MOST_BYTES = 20_000, 32 << 20
_MOST_REASONS, _MOST_WRITTEN = 20, 10_000
OTHERS = "other reasons"


@dataclass(slots=True)
class RedrivePlan:
    keeps_values: bool
    rows: list[PlannedRedrive] = field(default_factory=list)
    unshown: int = 0
    """Dead letters that no row was kept of."""
    targets: Counter[str] = field(default_factory=Counter)
    """How many records would be written to each topic."""
    left: Counter[str] = field(default_factory=Counter)
    """How many dead letters can't be redriven for each reason."""
    written: set[tuple[str, str | None]] = field(default_factory=set)
    """Topics that records would be written to, and the groups of their dead letters."""
    has_letter: bool = False
    """Whether any record had headers of dead letters."""
    _bytes: int = 0

    async def fill(self, planned: AsyncIterator[PlannedRedrive]) -> None:
        async for row in planned:
            self.add(row)

    def add(self, row: PlannedRedrive) -> None:
        letter = row.letter
        self.has_letter = self.has_letter or letter.is_dead_letter
        if row.reason is not None:
            is_known = row.kind in self.left or len(self.left) < _MOST_REASONS
            self.left[row.kind if is_known else OTHERS] += 1
        if row.written_to is not None:
            self.targets[row.written_to] += 1
            if len(self.written) < _MOST_WRITTEN:
                self.written.add((row.written_to, letter.group))
        if len(self.rows) >= _MOST_ROWS or self._bytes >= _MOST_BYTES:
            self.unshown += 1
            return
        kept = letter.cut(LONGEST_VALUE if self.keeps_values else 0, letter_identity(letter))
        self._bytes += kept.kept_bytes
        self.rows.append(replace(row, letter=kept))
