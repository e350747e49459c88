"""Defects to plant in the engine of a member: a search that doesn't find them is of no use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from kshare.client.holdings import Holdings
from kshare.engine.lease_book import LeaseBook
from kshare.state.acks import PartitionAcks
from kshare.state.lease import Lease


def open_outcomes_count_as_confirmed() -> Any:
    """A lost response is taken for a confirmation."""

    def on_no_response(self: PartitionAcks) -> Any:
        return self.on_response(0)

    return patch.object(PartitionAcks, "on_no_response", on_no_response)


def locks_never_expire() -> Any:
    """What has lost its lock is handed out all the same."""
    return patch.object(LeaseBook, "check_leases", lambda self: None)


def what_was_accepted_is_forgotten() -> Any:
    """A record that comes again after its acceptance is handed out again."""
    return patch.object(Holdings, "_remember", lambda self, lease: None)


def records_are_accepted_when_they_arrive() -> Any:
    """Before anybody has seen them."""
    original = PartitionAcks.add

    def add(self: PartitionAcks, lease: Lease) -> Any:
        found = original(self, lease)
        lease.decide(lease.last, 1)
        return found

    return patch.object(PartitionAcks, "add", add)


DEFECTS: dict[Callable[[], Any], str] = {
    open_outcomes_count_as_confirmed: "was told that record",
    locks_never_expire: "after its lock had expired",
    what_was_accepted_is_forgotten: "again, after it had accepted it",
    records_are_accepted_when_they_arrive: "no user has finished it",
}
"""What each breaks, as the search says it."""
