"""What redriving and dropping have in common: how a run counts, and which dead letters it holds until its end.

Dead letters that a run doesn't settle are held until the end and then released for the next run; the broker counts
that as a delivery. Those that would be archived are moved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kshare.admin.results import TopicPartition
from kshare.client.record import ShareBatch, ShareRecord
from kshare.dead_letters.dead_letter import DeadLetter, read
from kshare.dead_letters.duplicates import Duplicates
from kshare.dead_letters.moving import LetterMover
from kshare.dead_letters.outcome import Fate, LetterOutcome, OnOutcome
from kshare.dead_letters.selection import Selection
from kshare.dead_letters.writing import needed_bytes
from kshare.errors import AcknowledgeError, KshareError
from kshare.producer.writer import RecordWriter
from kshare.wording import counted

NOT_ALL_ARRIVED = (
    "not all dead letters arrived: some may be locked by a run that was killed; try again in a minute"
)


def given_up_earlier(count: int, group: str) -> str:
    """For chosen dead letters that the group no longer delivers."""
    return (
        f"group {group} has given up {counted(count, 'dead letter')} in earlier runs, after as many deliveries as it "
        "allows"
    )


Commit = Callable[[], Awaitable[Mapping[TopicPartition, KshareError | None]]]


@dataclass(slots=True)
class RunProgress(ABC):
    passed_over: int = 0
    again: int = 0
    """Not settled, because their locks were lost: they will be redelivered."""
    duplicates: int = 0
    """Settled without being written, because a copy was redriven or dropped."""
    moved: int = 0
    """Written to the topic again, because the group would have archived them."""
    last_chances: int = 0
    """Not settled or moved, and at the group's delivery count limit: they won't be delivered again."""
    given_up: int = 0
    """Chosen, but archived by the group in earlier runs: it doesn't deliver them."""
    waits_for: int = 0
    """The number of other members of the group, while nothing is delivered."""

    @property
    @abstractmethod
    def seen(self) -> int:
        """How many dead letters were dealt with."""


ProgressT = TypeVar("ProgressT", bound=RunProgress)


@dataclass(frozen=True, slots=True)
class RunOutcome(Generic[ProgressT]):
    progress: ProgressT
    is_complete: bool
    """False if some dead letters that existed at the start weren't delivered."""
    problem: str | None
    """The error that ended it early."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a run finds at its start."""

    ends: Mapping[TopicPartition, int]
    """The end offsets: the run is over when all dead letters before them are dealt with."""
    writer: RecordWriter
    mover: LetterMover
    given_up: int
    """How many of the chosen dead letters the group no longer delivers."""
    delivery_limit: int
    """Of the group."""


class LetterRun(ABC, Generic[ProgressT]):
    def __init__(
        self,
        progress: ProgressT,
        selection: Selection,
        start: Start,
        on_progress: Callable[[ProgressT], None],
        on_outcome: OnOutcome,
    ) -> None:
        self.progress = progress
        self._selection = selection
        self.ends = start.ends
        """Dead letters from there on arrived after the start, and may be redriven records that failed again."""
        self._mover = start.mover
        self._on_progress = on_progress
        self._on_outcome = on_outcome
        self._held: set[tuple[int, int]] = set()
        self._lost: set[tuple[int, int]] = set()
        """Those whose lock was lost before they were accepted."""
        self._late: set[tuple[int, int]] = set()
        """Of these, those that were redriven before."""
        self._dealt_with: set[tuple[int, int]] = set()
        """Those that were accepted since this batch began."""
        self._duplicates = Duplicates()
        self.problem: str | None = None
        """Why dead letters weren't moved, or may not be settled."""
        self._unmoved = 0
        """How many should have been moved, and couldn't be written."""
        self._why_unmoved: KshareError | None = None
        """Of the one that needs the most bytes, if some are too large."""
        self._missing = set(selection.places)
        """Of the dead letters that were chosen one by one, those that haven't been dealt with."""

    async def take(self, batch: ShareBatch, commit: Commit) -> None:
        """Deal with a batch. The consumer holds what isn't acknowledged."""
        self._dealt_with.clear()
        try:
            await self._deal_with(batch, commit)
        except KshareError:
            await self._move_due(batch)  # the run ends, and releases them
            raise
        await self._move_due(batch)
        self._mover.endangered.difference_update((batch.partition, record.offset) for record in batch)
        self._on_progress(self.progress)

    @abstractmethod
    async def _deal_with(self, batch: ShareBatch, commit: Commit) -> None:
        """Settle or hold the dead letters of a batch."""

    @property
    @abstractmethod
    def is_full(self) -> bool:
        """Whether as many were dealt with as were wanted."""

    @property
    def is_over(self) -> bool:
        """Whether it is full, and has seen all dead letters that may have to be moved."""
        return self.is_full and not self._mover.endangered

    @property
    def held(self) -> int:
        """How many dead letters are held until the end."""
        return len(self._held)

    @property
    def has_all_chosen(self) -> bool:
        """Whether all were dealt with that were chosen one by one: others needn't be delivered then."""
        return bool(self._selection.places) and not self._missing

    def wait_for(self, members: int) -> None:
        self.progress.waits_for = members
        self._on_progress(self.progress)

    def _is_new(self, batch: ShareBatch, record: ShareRecord) -> bool:
        return record.offset >= self.ends.get((batch.topic, batch.partition), 0)

    def _pass_over(self, record: ShareRecord, letter: DeadLetter) -> None:
        self._duplicates.hold(record, letter)
        if (letter.partition, letter.offset) not in self._held:
            self.progress.passed_over += 1
            self._on_outcome(LetterOutcome(letter, Fate.SKIPPED))
            self._hold(record)

    def _settle_duplicate(self, record: ShareRecord, letter: DeadLetter) -> None:
        """Accept a letter of which the run has redriven or dropped a copy."""
        where = letter.partition, letter.offset
        try:
            self._accept(record)
        except AcknowledgeError:
            self._on_outcome(LetterOutcome(letter, Fate.FAILED, reason="a duplicate, but its lock was lost"))
            return
        self._missing.discard(where)
        if where in self._late:
            self._late.discard(where)  # no copy: it was counted as redriven
            return
        self.progress.duplicates += 1
        reason = f"a copy of the dead letter {letter.first_place}, which was dealt with"
        self._on_outcome(LetterOutcome(letter, Fate.DUPLICATE, reason=reason))

    def _settle_held_duplicates(self, letter: DeadLetter) -> None:
        """Accept copies of a letter that was dealt with, if they were passed over before."""
        for record, held in self._duplicates.take_held(letter):
            if (held.partition, held.offset) in self._held:
                self._held.discard((held.partition, held.offset))
                self.progress.passed_over -= 1
                self._settle_duplicate(record, held)

    def _hold(self, record: ShareRecord) -> None:
        self._held.add((record.partition, record.offset))

    def _accept(self, record: ShareRecord) -> None:
        """Raises AcknowledgeError if its lock was lost: then it will be redelivered."""
        where = record.partition, record.offset
        self._dealt_with.add(where)
        try:
            record.accept()
        except AcknowledgeError:
            self._lost.add(where)
            raise
        else:
            self._lost.discard(where)
        finally:
            self.progress.again = len(self._lost)

    async def _move_due(self, batch: ShareBatch) -> None:
        """Move those that aren't accepted and have few deliveries left, also those that arrived after the start."""
        due = [
            (record, read(batch.topic, batch.partition, record))
            for record in batch
            if self._mover.is_due(record) and (record.partition, record.offset) not in self._dealt_with
        ]
        if not due:
            return
        for (record, letter), place in zip(due, await self._mover.write_again(due), strict=True):
            if isinstance(place, KshareError):
                self._leave_in_place(record, letter, place)
                continue
            problem = None
            try:
                record.accept()
            except AcknowledgeError:
                problem = "its lock was lost: it may be redelivered in its old place, too"
            self._held.discard((letter.partition, letter.offset))
            self.progress.moved += 1
            self._on_outcome(LetterOutcome(letter, Fate.MOVED, place, problem))

    def _leave_in_place(self, record: ShareRecord, letter: DeadLetter, error: KshareError) -> None:
        """It wasn't moved, and will be released at the end."""
        self._unmoved += 1
        self._why_unmoved = max(self._why_unmoved or error, error, key=needed_bytes)
        self.problem = (
            f"{counted(self._unmoved, 'dead letter')} couldn't be written to topic {record.topic} again, which would "
            f"keep {'it' if self._unmoved == 1 else 'them'} from being archived: {self._why_unmoved}"
        )
        self.progress.last_chances += record.delivery_count >= self._mover.most_deliveries
        self._on_outcome(LetterOutcome(letter, Fate.FAILED, reason=f"it couldn't be moved: {error}"))
