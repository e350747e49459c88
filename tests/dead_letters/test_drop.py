"""Drops that brokers refuse, while a copy of the dead letter is there."""

from __future__ import annotations

from typing import Any

import pytest

from kshare.dead_letters.drop import Drop, DropRequest
from kshare.dead_letters.letter_run import Start
from kshare.dead_letters.moving import LetterMover
from kshare.dead_letters.outcome import Fate, LetterOutcome
from kshare.dead_letters.selection import Selection
from kshare.errors import KshareError
from tests.fakes.dead_letters import GRAVE, HEADERS, MOVED, FakeBatch, FakeRecord

pytestmark = pytest.mark.anyio


async def test_a_letter_whose_drop_was_refused_is_no_duplicate_when_it_comes_again() -> None:
    outcomes: list[LetterOutcome] = []
    unused: Any = None
    run = Drop(
        DropRequest(Selection(), None),
        Start({(GRAVE, 0): 100}, unused, LetterMover(unused, 10, None), 0, 10),
        lambda progress: None,
        outcomes.append,
    )

    async def take(record: FakeRecord, refused: KshareError | None) -> None:
        batch: Any = FakeBatch([record])

        async def commit() -> dict[tuple[str, int], KshareError | None]:
            return {(GRAVE, 0): refused}

        await run.take(batch, commit)

    await take(FakeRecord(0, HEADERS), KshareError("refused"))
    await take(FakeRecord(0, HEADERS), None)
    await take(FakeRecord(1, MOVED), None)
    assert [outcome.fate for outcome in outcomes] == [Fate.FAILED, Fate.DROPPED, Fate.DUPLICATE]
    assert (run.progress.dropped, run.progress.duplicates) == (1, 1)
