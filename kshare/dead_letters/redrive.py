"""Runs a redrive of dead letters, or its dry run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kshare.admin.routing import Router
from kshare.dead_letters.dead_letter import DeadLetter
from kshare.dead_letters.duplicates import Duplicates
from kshare.dead_letters.letter_run import RunOutcome
from kshare.dead_letters.original_records import Missing, OriginalRecords
from kshare.dead_letters.outcome import OnOutcome, ignore
from kshare.dead_letters.read import open_letters
from kshare.dead_letters.redrive_records import Redrive, RedriveProgress, RedriveRequest
from kshare.dead_letters.settlement_run import prepare, settle
from kshare.dead_letters.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class PlannedRedrive:
    """A dead letter, and the topic to which it would be redriven, or the reason why it can't be."""

    letter: DeadLetter
    target: str | None
    reason: str | None
    is_duplicate: bool = False
    """It would be settled, because a copy of it would be redriven."""

    @property
    def written_to(self) -> str | None:
        """The topic, if its record would be written."""
        return self.target if self.reason is None and not self.is_duplicate else None

    @property
    def kind(self) -> str:
        """The reason without the place of the record, to be counted."""
        return (self.reason or "").replace(str(self.letter.origin), "the original record")


async def plan_redrive(
    router: Router, topic: str, group: str, request: RedriveRequest, unreadable: Unreadable
) -> AsyncIterator[PlannedRedrive]:
    """What a redrive by this group would do now. Changes nothing."""
    await _check_target(router, request)
    originals = OriginalRecords(router)
    duplicates = Duplicates()
    count = 0
    async for letter in open_letters(router, topic, group, request.selection, unreadable):
        if duplicates.includes(letter):
            yield PlannedRedrive(letter, None, None, is_duplicate=True)
            continue
        if request.most is not None and count >= request.most:
            return
        planned = await _planned(letter, request, originals)
        if planned.reason is None:
            count += 1
            duplicates.add(letter)
        yield planned


async def _check_target(router: Router, request: RedriveRequest) -> None:
    """Raises BrokerError if the topic that the user named doesn't exist."""
    if request.target is not None:
        await router.metadata([request.target])


async def _planned(letter: DeadLetter, request: RedriveRequest, originals: OriginalRecords) -> PlannedRedrive:
    target = request.destination(letter)
    if isinstance(target, Missing):
        return PlannedRedrive(letter, None, target.reason)
    record = await originals.record(letter, request.target)
    return PlannedRedrive(letter, target, record.reason if isinstance(record, Missing) else None)


async def redrive(
    router: Router,
    options: Mapping[str, Any],
    topic: str,
    group: str,
    request: RedriveRequest,
    on_progress: Callable[[RedriveProgress], None],
    on_outcome: OnOutcome = ignore,
) -> RunOutcome[RedriveProgress]:
    """However it ends, dead letters whose copies are confirmed are settled, and the others are released."""
    await _check_target(router, request)
    start = await prepare(router, topic, group, request.selection)
    run = Redrive(request, OriginalRecords(router), start, on_progress, on_outcome)
    return await settle(router, options, topic, group, start, run)
