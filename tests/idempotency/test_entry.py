"""The rules themselves, where their times are equal."""

from __future__ import annotations

from kshare.idempotency.entry import Entry, may_abandon, may_finish, on_claim
from kshare.idempotency.store import CLAIMED


def test_an_entry_expires_at_its_time_and_not_before() -> None:
    entry = Entry("anne", 10.0)
    assert on_claim(entry, "bert", 9.9) != CLAIMED
    assert on_claim(entry, "bert", 10.0) == CLAIMED
    assert not may_finish(entry, "bert", 9.9)
    assert may_finish(entry, "bert", 10.0)


def test_a_missing_entry_can_be_finished_and_not_abandoned() -> None:
    assert may_finish(None, "anne", 1.0)
    assert not may_abandon(None, "anne")
