"""What happens to each record of the storm, and how it has to end. Pure.

A record's value is its number, which decides its fate, so the storm and its judges agree without talking.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ATTEMPTS = 8
"""What the retry policy allows."""
FAILURES = 3
"""How many attempts of a record fail that succeeds in the end."""


class Fate(StrEnum):
    SUCCEEDS = "succeeds"
    FAILS_AT_FIRST = "fails three times, then succeeds"
    FAILS = "always fails"
    REJECTED = "is rejected"
    HANGS_AT_FIRST = "hangs beyond time_limit once, then succeeds"
    HANGS = "always hangs beyond time_limit"
    IS_SLOW = "takes longer than the lock, once"
    STALLS = "stalls its process for longer than the lock, once"
    KILLS_AT_FIRST = "kills its process once, then succeeds"
    KILLS = "always kills its process"

    @property
    def is_dead(self) -> bool:
        """Whether it has to become a dead letter."""
        return self in (Fate.FAILS, Fate.REJECTED, Fate.HANGS, Fate.KILLS)


@dataclass(frozen=True)
class Plan:
    """How many records there are, and how many of them have the rare fates."""

    records: int
    hang: int
    hang_once: int
    slow: int
    stall: int
    kill: int
    kill_once: int

    def fates(self) -> list[Fate]:
        """The fate of each record, by number."""
        found = [_common(number) for number in range(self.records)]
        rare = [
            *[Fate.HANGS] * self.hang,
            *[Fate.HANGS_AT_FIRST] * self.hang_once,
            *[Fate.IS_SLOW] * self.slow,
            *[Fate.STALLS] * self.stall,
            *[Fate.KILLS] * self.kill,
            *[Fate.KILLS_AT_FIRST] * self.kill_once,
        ]
        for index, fate in enumerate(rare):
            # A step that has no factor in common with their number mixes the fates over the whole storm.
            place = index * 7919 % len(rare)
            found[self.records * (2 * place + 1) // (2 * len(rare))] = fate
        return found


def _common(number: int) -> Fate:
    match number % 100:
        case 7 | 37 | 67:
            return Fate.FAILS_AT_FIRST
        case 11:
            return Fate.FAILS
        case 13:
            return Fate.REJECTED
        case _:
            return Fate.SUCCEEDS


FULL = Plan(100_000, hang=5, hang_once=40, slow=40, stall=6, kill=2, kill_once=15)
SHORT = Plan(2_000, hang=0, hang_once=3, slow=3, stall=1, kill=0, kill_once=2)


def is_ordered(number: int) -> bool:
    """Whether the record is in the topic whose records are processed in order of their keys."""
    return number % 5 == 0


def key_of(number: int) -> bytes:
    return b"%d" % (number // 5 % 97)
