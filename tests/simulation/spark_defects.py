"""Defects to plant in the Spark source: a judge that doesn't find them is of no use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kshare.errors import ProducerFenced
from kshare.producer.fenced import FencedWriter
from kshare.producer.records import NewRecord
from kshare.producer.settings import WriterSettings
from kshare.producer.transactions import TransactionLink
from kshare.spark import source
from kshare.spark.driver.custody import Custody
from kshare.spark.driver.decisions import Decisions, Verdicts
from kshare.spark.driver.offset_sets import OffsetSet, span_of
from kshare.spark.driver.range_member import RangeMember
from kshare.spark.driver.stager import Stager
from kshare.spark.driver.staging import Staging
from kshare.spark.driver.verdict_log import VerdictLog, VerdictWriter
from kshare.spark.journal.replay import JournalContents
from kshare.spark.ranges import RecordRange, Token
from kshare.spark.splitting import TaskLimits, split
from tests.simulation.planting import Defect, replace


def decisions_are_written_late() -> None:
    """Those for a micro-batch are written with the next ones."""
    original = VerdictWriter.write
    late: dict[Any, tuple[int, Verdicts]] = {}

    async def write(writer: Any, batch: int, verdicts: Verdicts) -> None:
        before, late[writer] = late.get(writer), (batch, verdicts)
        if before is not None:
            await original(writer, *before)

    replace(VerdictWriter, "write", write)


def decisions_are_forgotten() -> None:
    """A restarted query takes it that the user has decided nothing."""
    replace(VerdictLog, "read", lambda log, batch: {})


def decided_rows_are_accepted() -> None:
    """What the user has released or rejected is accepted with its micro-batch."""
    original = Custody._complete_in_flight

    def complete(custody: Any) -> Decisions:
        custody._verdicts = {}
        return original(custody)

    replace(Custody, "_complete_in_flight", complete)


def fenced_writers_go_on() -> None:
    """A runner whose journal was taken over claims it again."""
    original = FencedWriter.append

    async def append(writer: Any, records: Iterable[NewRecord]) -> int:
        kept = [*records]
        try:
            return await original(writer, kept)
        except ProducerFenced:
            writer._link = TransactionLink(writer._router, WriterSettings(transactional_id=writer._name))
            await writer.claim()
            writer._failure = None
            return await original(writer, kept)

    replace(FencedWriter, "append", append)


def rejected_rows_are_released() -> None:
    original = Custody._complete_in_flight

    def complete(custody: Any) -> Decisions:
        decisions = original(custody)
        decisions.release, decisions.reject = [*decisions.release, *decisions.reject], []
        return decisions

    replace(Custody, "_complete_in_flight", complete)


def batches_are_accepted_when_read() -> None:
    """Before Spark has committed them."""
    original = Custody.read

    def read(
        custody: Any, start: Token, end: Token, *, is_logged: bool
    ) -> tuple[tuple[RecordRange, ...], Decisions]:
        ranges, decisions = original(custody, start, end, is_logged=is_logged)
        decisions.accept += [*custody._in_flight]
        return ranges, decisions

    replace(Custody, "read", read)


def plans_are_accepted_before_they_are_logged() -> None:
    """With settle=checkpoint."""
    original = Custody.complete

    def complete(custody: Any, start: Token, verdicts: Verdicts | None = None) -> Decisions:
        decisions = original(custody, start, verdicts)
        if custody.settle == "checkpoint":
            decisions.accept += [*custody._fresh.offsets]
        return decisions

    replace(Custody, "complete", complete)


def frames_are_accepted_before_they_are_written() -> None:
    original = Stager._append

    async def append(stager: Any) -> None:
        stager._apply(
            Decisions(accept=[*stager._custody._staging.waiting.offsets]) if stager._journal else Decisions()
        )
        await original(stager)

    replace(Stager, "_append", append)


def a_replay_leaves_out_the_last_range() -> None:
    """A restarted query doesn't find everything that is staged."""
    original = JournalContents.staged

    def staged(contents: Any, taken: int) -> tuple[RecordRange, ...]:
        return original(contents, taken)[:-1]

    replace(JournalContents, "staged", staged)


def the_position_in_the_journal_is_kept() -> None:
    """Tokens don't tell how far they have taken what is staged."""
    replace(Staging, "_move", lambda staging, records: None)


def a_range_is_planned_twice() -> None:
    """The first one of each micro-batch is in the next one, too."""
    original = Custody.plan

    def plan(custody: Any, limit: int, starts: Any = ()) -> Token | None:
        token = original(custody, limit, starts)
        if token is not None:
            custody._fresh.add(span_of(token.acquired[0]), 1)
        return token

    replace(Custody, "plan", plan)


def owed_is_forgotten() -> None:
    """A restarted query doesn't know what was emitted, and not yet confirmed."""
    replace(Custody, "_emitted", lambda custody, token, verdicts=None: OffsetSet())


def the_last_range_is_not_read() -> None:
    def fewer(
        ranges: Iterable[RecordRange], limits: TaskLimits, cores: int | None
    ) -> Sequence[tuple[RecordRange, ...]]:
        return split([*ranges][:-1] or ranges, limits, cores)

    replace(source, "split", fewer)


def the_group_is_not_left() -> None:
    async def leave(member: Any) -> None:
        pass

    replace(RangeMember, "_leave", leave)


DEFECTS = [
    Defect(plant, "spark", finding, what, seed)
    for plant, finding, what, seed in (
        (
            decisions_are_written_late,
            "decision not durable",
            "writes decisions with those of the next micro-batch",
            114,
        ),
        (decisions_are_forgotten, "accepted against the user", "forgets decisions when it is restarted", 114),
        (
            decided_rows_are_accepted,
            "accepted against the user",
            "accepts what the user has released or rejected",
            114,
        ),
        (rejected_rows_are_released, "forgotten", "releases what the user has rejected", 20),
        (
            fenced_writers_go_on,
            "not fenced",
            "claims its journal again after another runner took it over",
            25,
        ),
        (batches_are_accepted_when_read, "accepted early", "accepts before Spark has committed", 1),
        (
            plans_are_accepted_before_they_are_logged,
            "accepted early",
            "accepts before its plan is in Spark's log",
            23,
        ),
        (
            frames_are_accepted_before_they_are_written,
            "accepted early",
            "accepts before its journal is written",
            10,
        ),
        (a_replay_leaves_out_the_last_range, "lost", "reads all of its journal but the last range", 24),
        (
            the_position_in_the_journal_is_kept,
            "emitted twice",
            "doesn't say in tokens how far it has got",
            24,
        ),
        (a_range_is_planned_twice, "emitted twice", "plans a range for the next micro-batch, too", 1),
        (owed_is_forgotten, "emitted twice", "forgets when it is restarted what was emitted already", 1),
        (the_last_range_is_not_read, "another replay", "doesn't read the last range of a micro-batch", 1),
        (the_group_is_not_left, "still a member", "ends without leaving its group", 1),
    )
]
