"""Defects to plant in the Spark source: a search that doesn't find them is of no use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import patch

from kshare.spark.driver.custody import Custody
from kshare.spark.driver.stager import Stager
from kshare.spark.driver.verdict_log import VerdictLog, VerdictWriter
from kshare.spark.ranges import RecordRange
from tests.exhaustive.disk import Disk


def records_are_accepted_before_the_journal_has_them() -> Any:
    original = Custody.next_frame

    def next_frame(self: Custody) -> tuple[RecordRange, ...]:
        frame = original(self)
        for send in _senders:
            send(self.appended(frame) if frame else None)
        return frame

    def init(self: Stager, options: Any, settings: Any, custody: Custody, apply: Any, router: Any) -> None:
        real(self, options, settings, custody, apply, router)
        _senders[:] = [lambda decisions: apply(decisions) if decisions is not None else None]

    real = Stager.__init__
    _senders: list[Callable[[Any], None]] = []
    return patch.multiple(Custody, next_frame=next_frame), patch.object(Stager, "__init__", init)


def what_is_staged_is_forgotten_at_a_restart() -> Any:
    original = Custody.adopt_journal

    def adopt(self: Custody, position: Any, staged: Iterable[RecordRange]) -> None:
        original(self, position, ())

    return (patch.object(Custody, "adopt_journal", adopt),)


def what_is_owed_is_emitted_again() -> Any:
    return (patch.object(Custody, "_add_unconfirmed", lambda self, spans: None),)


def decisions_are_written_after_the_user_has_gone_on() -> Any:
    async def write(self: VerdictWriter, batch: int, verdicts: Any) -> None:
        """Some time later, which a crash may prevent."""

    return (patch.object(VerdictWriter, "write", write),)


def decisions_of_a_complete_batch_are_ignored() -> Any:
    return (patch.object(VerdictLog, "read", lambda self, batch: {}),)


def decisions_are_not_synced() -> Any:
    """After a crash of the machine, what was on the disk before may be there again."""
    return (patch.object(Disk, "fsync", lambda self, number: None),)


JOURNAL_DEFECTS: dict[Callable[[], Any], str] = {
    records_are_accepted_before_the_journal_has_them: "is neither staged nor processed",
    what_is_staged_is_forgotten_at_a_restart: "record 1 is lost",
    what_is_owed_is_emitted_again: "a record was emitted twice",
}
"""What each breaks, as the search says it."""
ROW_DEFECTS: dict[Callable[[], Any], str] = {
    what_is_owed_is_emitted_again: "and emitted again",
    decisions_are_written_after_the_user_has_gone_on: "though the user had settled it otherwise",
    decisions_are_not_synced: "though the user had settled it otherwise",
    decisions_of_a_complete_batch_are_ignored: "though the user had settled it otherwise",
}
