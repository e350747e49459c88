"""Selects dead letters by origin, group, reason, time or position."""

from __future__ import annotations

from dataclasses import dataclass

from kshare.dead_letters.dead_letter import DeadLetter


@dataclass(frozen=True, slots=True)
class Selection:
    """All given criteria must match; of several values of one criterion, any may match."""

    sources: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    reasons: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    """Milliseconds since 1970, exclusive."""
    places: frozenset[tuple[int, int]] = frozenset()

    def wants(self, letter: DeadLetter) -> bool:
        source = letter.origin.topic if letter.origin else None
        reason = (letter.reason or "").casefold()
        return (
            (not self.sources or source in self.sources)
            and (not self.groups or letter.group in self.groups)
            and (not self.reasons or any(text.casefold() in reason for text in self.reasons))
            and (self.since is None or letter.timestamp >= self.since)
            and (self.until is None or letter.timestamp < self.until)
            and (not self.places or (letter.partition, letter.offset) in self.places)
        )
