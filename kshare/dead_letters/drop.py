"""Drops dead letters: the share group accepts them, and nothing is written.

They count as dealt with, like redriven ones, and stay in their topic as long as retention allows. A dead letter counts
as dropped once the broker has confirmed that it was accepted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kshare.admin.routing import Router
from kshare.client.record import ShareBatch
from kshare.dead_letters.dead_letter import DeadLetter, read
from kshare.dead_letters.duplicates import Duplicates
from kshare.dead_letters.letter_run import Commit, LetterRun, RunOutcome, RunProgress, Start
from kshare.dead_letters.outcome import Fate, LetterOutcome, OnOutcome, ignore
from kshare.dead_letters.read import open_letters
from kshare.dead_letters.selection import Selection
from kshare.dead_letters.settlement_run import prepare, settle
from kshare.dead_letters.unreadable import Unreadable
from kshare.errors import AcknowledgeError, KshareError
from kshare.wording import counted

_LOST = "its lock was lost: it will be redelivered"
_STOPPED = "the run was stopped before the broker confirmed it"


@dataclass(frozen=True, slots=True)
class DropRequest:
    """What the user wants."""

    selection: Selection
    most: int | None


@dataclass(slots=True)
class DropProgress(RunProgress):
    dropped: int = 0
    unconfirmed: int = 0
    """Accepted, but the broker hasn't confirmed it: they may be dropped, or will be redelivered."""

    @property
    def seen(self) -> int:
        return self.dropped + self.passed_over + self.duplicates + self.again + self.unconfirmed


@dataclass(frozen=True, slots=True)
class PlannedDrop:
    """A dead letter that would be dropped, or settled because a copy of it would be dropped."""

    letter: DeadLetter
    is_duplicate: bool


async def plan_drop(
    router: Router, topic: str, group: str, request: DropRequest, unreadable: Unreadable
) -> AsyncIterator[PlannedDrop]:
    """What a drop by this group would do now. Changes nothing."""
    duplicates = Duplicates()
    count, with_others = 0, bool(request.selection.places)
    async for letter in open_letters(
        router, topic, group, request.selection, unreadable, with_others=with_others
    ):
        if duplicates.includes(letter):
            yield PlannedDrop(letter, is_duplicate=True)
        elif _is_droppable(letter, request.selection):
            if request.most is not None and count >= request.most:
                return
            count += 1
            duplicates.add(letter)
            yield PlannedDrop(letter, is_duplicate=False)


async def drop(
    router: Router,
    options: Mapping[str, Any],
    topic: str,
    group: str,
    request: DropRequest,
    on_progress: Callable[[DropProgress], None],
    on_outcome: OnOutcome = ignore,
) -> RunOutcome[DropProgress]:
    """However it ends, what was dropped is settled, and the others are released."""
    start = await prepare(router, topic, group, request.selection)
    run = Drop(request, start, on_progress, on_outcome)
    return await settle(router, options, topic, group, start, run)


def _is_droppable(letter: DeadLetter, selection: Selection) -> bool:
    """Records without headers of dead letters are only dropped if they are named: the topic may be another one."""
    is_named = (letter.partition, letter.offset) in selection.places
    return selection.wants(letter) and (letter.is_dead_letter or is_named)


class Drop(LetterRun[DropProgress]):
    def __init__(
        self,
        request: DropRequest,
        start: Start,
        on_progress: Callable[[DropProgress], None],
        on_outcome: OnOutcome,
    ) -> None:
        super().__init__(DropProgress(), request.selection, start, on_progress, on_outcome)
        self._most = request.most

    @property
    def is_full(self) -> bool:
        return self.has_all_chosen or self._is_full_with(0)

    async def _deal_with(self, batch: ShareBatch, commit: Commit) -> None:
        accepted: list[DeadLetter] = []
        for record in batch:
            letter = read(batch.topic, batch.partition, record)
            if self._is_new(batch, record):
                continue
            if self._duplicates.includes(letter):
                self._settle_duplicate(record, letter)
            elif self._is_full_with(len(accepted)):
                self._hold(record)
            elif not _is_droppable(letter, self._selection):
                self._pass_over(record, letter)
            else:
                try:
                    self._accept(record)
                except AcknowledgeError:
                    self._on_outcome(LetterOutcome(letter, Fate.FAILED, reason=_LOST))
                else:
                    self._duplicates.add(letter)
                    accepted.append(letter)
        if accepted:
            await self._confirm(accepted, batch, commit)

    async def _confirm(self, accepted: list[DeadLetter], batch: ShareBatch, commit: Commit) -> None:
        """Raises KshareError if the broker doesn't respond."""
        problem: str | None = _STOPPED
        try:
            refused = (await commit()).get((batch.topic, batch.partition))
            problem = None if refused is None else str(refused)
        except KshareError as error:
            problem = str(error)
            raise KshareError(_unconfirmed(accepted, problem)) from error
        finally:
            self._end(accepted, problem)

    def _is_full_with(self, count: int) -> bool:
        return self._most is not None and self.progress.dropped + count >= self._most

    def _end(self, letters: list[DeadLetter], problem: str | None) -> None:
        for letter in letters:
            self._missing.discard((letter.partition, letter.offset))
            if problem is None:
                self.progress.dropped += 1
                self._on_outcome(LetterOutcome(letter, Fate.DROPPED))
                self._settle_held_duplicates(letter)
            else:
                self._duplicates.discard(letter)  # it may come again
                self.progress.unconfirmed += 1
                reason = f"it may or may not be dropped: {problem}"
                self._on_outcome(LetterOutcome(letter, Fate.FAILED, reason=reason))
        if problem is not None:
            self.problem = _unconfirmed(letters, problem)


def _unconfirmed(letters: Sequence[DeadLetter], problem: str) -> str:
    verb = "was" if len(letters) == 1 else "were"
    return (
        f"the broker hasn't confirmed that {counted(len(letters), 'dead letter')} {verb} dropped: {problem}"
    )
