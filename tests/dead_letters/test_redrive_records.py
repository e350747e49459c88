"""Redrives whose locks are lost, or whose writes fail, while a copy of the dead letter is in the same batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kshare.dead_letters.dead_letter import DeadLetter
from kshare.dead_letters.letter_run import Start
from kshare.dead_letters.moving import LetterMover
from kshare.dead_letters.outcome import Fate, LetterOutcome
from kshare.dead_letters.redrive_records import Redrive, RedriveRequest
from kshare.dead_letters.selection import Selection
from kshare.errors import BrokerError, DeliveryFailed, KshareError
from kshare.producer.records import NewRecord
from kshare.protocol.error_codes import ErrorCode
from tests.fakes.dead_letters import GRAVE, HEADERS, MOVED, FakeBatch, FakeRecord

pytestmark = pytest.mark.anyio


@dataclass
class FakeWriter:
    problem: KshareError | None = None
    written: list[NewRecord] = field(default_factory=list)

    async def partition_count(self, topic: str) -> int:
        return 1

    async def append_outcomes(
        self, topic: str, partition: int, records: Sequence[NewRecord]
    ) -> list[int | KshareError]:
        if self.problem is not None:
            return [self.problem] * len(records)
        first = len(self.written)
        self.written += records
        return list(range(first, len(self.written)))


class FakeOriginals:
    async def record(self, letter: DeadLetter, named: str | None) -> NewRecord:
        return NewRecord(letter.value, letter.key, letter.own_headers, letter.timestamp)


@dataclass
class Given:
    writer: FakeWriter = field(default_factory=FakeWriter)
    selection: Selection = field(default_factory=Selection)
    settles_others: bool = False
    outcomes: list[LetterOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        writer: Any = self.writer
        originals: Any = FakeOriginals()
        request = RedriveRequest(self.selection, None, None, None, settles_others=self.settles_others)
        self.run = Redrive(
            request,
            originals,
            Start({(GRAVE, 0): 100}, writer, LetterMover(writer, 10, None), 0, 10),
            lambda progress: None,
            self.outcomes.append,
        )

    async def take(self, *records: FakeRecord) -> None:
        batch: Any = FakeBatch(records)

        async def commit() -> dict[Any, None]:
            return {}

        await self.run.take(batch, commit)


async def test_a_letter_that_comes_again_in_the_same_run_is_written_once() -> None:
    given, again = Given(), FakeRecord(0, HEADERS)
    await given.take(FakeRecord(0, HEADERS, is_lost=True))
    assert (given.run.progress.redriven, given.run.progress.again) == (1, 1)
    await given.take(again)
    assert again.is_accepted
    assert len(given.writer.written) == 1
    progress = given.run.progress
    assert (progress.redriven, progress.again, progress.duplicates) == (1, 0, 0)


async def test_a_copy_whose_lock_is_lost_is_settled_when_it_comes_again() -> None:
    given, again = Given(), FakeRecord(1, MOVED)
    await given.take(FakeRecord(0, HEADERS), FakeRecord(1, MOVED, is_lost=True))
    assert [outcome.fate for outcome in given.outcomes] == [Fate.REDRIVEN, Fate.FAILED]
    await given.take(again)
    assert again.is_accepted
    assert (given.run.progress.duplicates, given.run.progress.again) == (1, 0)
    assert len(given.writer.written) == 1


async def test_a_lost_lock_of_another_letter_does_not_end_the_run() -> None:
    given = Given(selection=Selection(places=frozenset({(0, 1)})), settles_others=True)
    await given.take(FakeRecord(0, HEADERS, is_lost=True), FakeRecord(1, HEADERS))
    assert [outcome.fate for outcome in given.outcomes] == [Fate.FAILED, Fate.REDRIVEN]
    assert given.run.progress.passed_over == 0


async def test_a_copy_is_not_settled_before_its_letter_is_written() -> None:
    given = Given(FakeWriter(DeliveryFailed("orders", 0, "no response", is_open=True)))
    letter, copy = FakeRecord(0, HEADERS), FakeRecord(1, MOVED)
    with pytest.raises(DeliveryFailed):
        await given.take(letter, copy)
    assert not letter.is_accepted
    assert not copy.is_accepted


async def test_a_copy_of_a_letter_that_the_broker_refuses_is_not_settled() -> None:
    given = Given(FakeWriter(BrokerError(ErrorCode.MESSAGE_TOO_LARGE, "writing to orders[0]")))
    letter, copy = FakeRecord(0, HEADERS), FakeRecord(1, MOVED)
    await given.take(letter, copy)
    assert [outcome.fate for outcome in given.outcomes] == [Fate.LEFT, Fate.LEFT]
    assert not letter.is_accepted
    assert not copy.is_accepted
