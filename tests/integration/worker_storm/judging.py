"""Judges a storm: what each process has written down, and the dead letters, against the fates of the records. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.integration.worker_storm.diary import Entry, Event
from tests.integration.worker_storm.fates import Fate, is_ordered, key_of

AFTERMATH_S = 2.0
"""For how long before its death a process may have worked on a record whose end wasn't confirmed yet."""
_CLOCKS_S = 0.1
"""A write may be stamped a little after the last thing that its process has noted."""
ENDED_WITH_IT = "deliveries ended without a result"
"""What the dead letter says of a record whose process has died, or was stalled, again and again."""


@dataclass
class Witness:
    """The diary of one process, and whether a record has killed it. Then what it did to it is the last entry."""

    entries: list[Entry]
    was_killed: bool
    stalls: list[tuple[float, float]] = field(init=False)
    """From when to when its event loop stood still."""

    @property
    def killed_at(self) -> float | None:
        return self.entries[-1].at if self.was_killed else None

    def __post_init__(self) -> None:
        self.stalls = [
            (entry.at - entry.number / 1000, entry.at)
            for entry in self.entries
            if entry.event is Event.STALLED
        ]


@dataclass(frozen=True)
class Copy:
    """A record in a retry topic, or a dead letter."""

    number: int
    at: float
    """When it was written."""
    message: str = ""
    """What a dead letter says."""


@dataclass
class Judgement:
    fates: list[Fate]
    witnesses: list[Witness]
    retries: list[Copy]
    dead_letters: list[Copy]
    lock_s: float
    can_renew: bool

    def __post_init__(self) -> None:
        self.successes: Counter[int] = Counter()
        self.runs: Counter[int] = Counter()
        self._seen: defaultdict[int, list[tuple[list[Witness], float]]] = defaultdict(list)
        """When something was done to a record, and the processes that may have done it."""
        for witness in self.witnesses:
            for entry in witness.entries:
                if entry.event in (Event.BEGAN, Event.SUCCEEDED):
                    self._seen[entry.number].append(([witness], entry.at))
                    self.runs[entry.number] += entry.event is Event.BEGAN
                    self.successes[entry.number] += entry.event is Event.SUCCEEDED
        for copy in [*self.retries, *self.dead_letters]:
            self._seen[copy.number].append((self.witnesses, copy.at))
        self.letters = Counter(letter.number for letter in self.dead_letters)

    # --- ends

    @property
    def ended(self) -> int:
        """How many different records have ended."""
        return len(+self.successes | self.letters)

    def lost(self) -> list[int]:
        return [
            number
            for number in range(len(self.fates))
            if not self.successes[number] and not self.letters[number]
        ]

    def wrong(self) -> list[int]:
        """Records that ended otherwise than their policy says."""
        given_up = set(self.given_up())
        return [
            number
            for number, fate in enumerate(self.fates)
            if number not in given_up and (self.successes if fate.is_dead else self.letters)[number]
        ]

    def given_up(self) -> list[int]:
        """Records that are dead because too many of their deliveries ended with their process, as documented.

        Nobody knows which of the records that a process has in hand has killed it.
        """
        messages = {letter.number: letter.message for letter in self.dead_letters}
        return [
            number
            for number, fate in enumerate(self.fates)
            if not fate.is_dead and self.letters[number] and ENDED_WITH_IT in messages[number]
        ]

    def doubles(self) -> Mapping[str, list[int]]:
        """Records that ended more than once, by the reason for it."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for number in sorted(self.successes.keys() | self.letters.keys()):
            if self.successes[number] + self.letters[number] > 1:
                found[self._reason(number)].append(number)
        return found

    def _reason(self, number: int) -> str:
        done = [(witness, at) for witnesses, at in self._seen[number] for witness in witnesses]
        if any(self._was_stalled(witness, at) for witness, at in done):
            return "its process stalled, so its lock was lost"
        if any(_was_killed(witness, at) for witness, at in done):
            return "its process was killed"
        if self.fates[number] is Fate.IS_SLOW and not self.can_renew:
            return "its handler took longer than the lock, which 4.1 can't renew"
        return UNEXPLAINED

    def _was_stalled(self, witness: Witness, at: float) -> bool:
        return any(begin - self.lock_s <= at <= end + self.lock_s for begin, end in witness.stalls)

    # --- order

    def disorder(self) -> tuple[int, int, int]:
        """Of how many records the order was compared, and how often it was wrong: in a process, and between processes.

        Only records that were processed once, in the topic whose records are processed in the order of their keys.
        """
        once: list[tuple[float, int, int]] = []
        for index, witness in enumerate(self.witnesses):
            once += [
                (entry.at, entry.number, index)
                for entry in witness.entries
                if entry.event is Event.BEGAN
                and is_ordered(entry.number)
                and (entry.attempt, entry.deliveries, self.runs[entry.number]) == (1, 1, 1)
            ]
        latest: defaultdict[tuple[bytes, int | None], int] = defaultdict(lambda: -1)
        within = between = 0
        for _, number, index in sorted(once):
            own, anyones = (key_of(number), index), (key_of(number), None)
            if latest[own] > number:
                within += 1
            elif latest[anyones] > number:
                between += 1
            latest[own] = max(latest[own], number)
            latest[anyones] = max(latest[anyones], number)
        return len(once), within, between

    # --- words

    def problems(self) -> Iterator[str]:
        if lost := self.lost():
            yield f"{len(lost)} lost: {self._some(lost)}"
        if wrong := self.wrong():
            yield f"{len(wrong)} ended otherwise than their policy says: {self._some(wrong)}"
        if doubles := self.doubles().get(UNEXPLAINED):
            yield f"{len(doubles)} doubled without a reason: {self._some(doubles)}"
        # 4.1 doesn't count deliveries that ended with their session, so nobody knows which records came again.
        if self.can_renew and (within := self.disorder()[1]):
            yield f"{within} times a process didn't keep the order of a key"

    def report(self) -> str:
        killed = sum(witness.killed_at is not None for witness in self.witnesses)
        compared, within, between = self.disorder()
        lines = ["| what happens to the record | records | runs | how they ended |", "|---|---|---|---|"]
        for fate in Fate:
            numbers = [number for number, found in enumerate(self.fates) if found is fate]
            if numbers:
                runs = sum(self.runs[number] for number in numbers)
                succeeded = sum(self.successes[number] > 0 for number in numbers)
                dead = sum(self.letters[number] > 0 for number in numbers)
                lines.append(
                    f"| {fate} | {len(numbers):,} | {runs:,} | {succeeded:,} succeeded, {dead:,} dead |"
                )
        stalls = sum(len(witness.stalls) for witness in self.witnesses)
        lines += [
            "",
            f"{len(self.fates):,} records, {len(self.lost())} lost, {len(self.wrong())} ended otherwise than their "
            f"policy says. {len(self.given_up())} others are dead because too many of their deliveries ended "
            f"with their process ({sum(self.successes[number] > 0 for number in self.given_up())} of them had "
            f"succeeded, but their process was killed before that was confirmed). {killed} processes were killed, "
            f"{stalls} times one stood still.",
            "",
            f"Ended more than once: {sum(map(len, self.doubles().values()))}.",
            "",
            *(f"- {len(numbers)}: {reason}" for reason, numbers in sorted(self.doubles().items())),
            "",
            f"Order by key, of {compared:,} records that were processed once: {within} times wrong within a process, "
            f"{between} times between two, while a partition moved.",
        ]
        return "\n".join(lines)

    def _some(self, numbers: Iterable[int]) -> str:
        return ", ".join(
            f"{number} ({self.fates[number]}; {self.runs[number]} runs, {self.successes[number]} successes, "
            f"{self.letters[number]} dead letters)"
            for number in [*numbers][:10]
        )


UNEXPLAINED = "without a reason"


def _was_killed(witness: Witness, at: float) -> bool:
    return witness.killed_at is not None and -_CLOCKS_S < witness.killed_at - at < AFTERMATH_S
