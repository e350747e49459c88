"""What a fetch brought, until somebody asks for it: not looked into before, so that the next fetch can leave first.

Decides what of it can be handed out. `kshare.state.coverage` says which offsets are gaps and which are doubtful: those
are released, for a gap is never delivered again. Never decides to whom, or when.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from kshare.engine.events import Damaged, Reporter
from kshare.protocol.messages.share_fetch_response import AcquiredRecords, PartitionData
from kshare.protocol.records import Batch
from kshare.state.coverage import Coverage, Finding, wrong_ranges
from kshare.state.lease import GAP, RELEASE, Lease

_NAMED = 5
"""Stretches of offsets that are named when records are released."""


class Brought:
    """The records of one partition in one answer, whoever acquired them."""

    def __init__(self, data: PartitionData, topic: str, reporter: Reporter) -> None:
        self.topic = topic
        self.partition = data.partition_index
        self.reporter = reporter
        self.acquired: Sequence[AcquiredRecords] = data.acquired_records
        """Those ranges that can be right: of the others nothing is known, not even that they were acquired."""
        spans = [(one.first_offset, one.last_offset) for one in self.acquired]
        wrong = wrong_ranges(spans)
        if wrong:
            for why in wrong.values():
                tell_ignored(reporter, topic, self.partition, why)
            self.acquired = [one for index, one in enumerate(self.acquired) if index not in wrong]
            spans = [span for index, span in enumerate(spans) if index not in wrong]
        self.count = sum(last - first + 1 for first, last in spans)
        """Offsets acquired, with or without a record."""
        self.coverage = Coverage(data.records, spans)


class Arrival(NamedTuple):
    """Records that were acquired together."""

    topic: str
    lease: Lease
    brought: Brought

    def look(self) -> list[Batch]:
        """Checks them, and gives the batches that they are in.

        What nothing accounts for is given back. Another fetch may bring it whole, and the broker's delivery limit ends
        it if it stays broken.
        """
        lease = self.lease
        found = self.brought.coverage.of(lease.first, lease.last, lease.delivery_count)
        for first, last in found.gaps:
            _decide(lease, first, last, GAP)
        if found.doubtful:
            self._release(found)
        lease.epochs = [(batch.base_offset, batch.last_offset, batch.leader_epoch) for batch in found.batches]
        return found.batches

    def _release(self, found: Finding) -> None:
        released = sum(_decide(self.lease, first, last, RELEASE) for first, last in found.doubtful)
        if not released:
            return
        spans = [f"{first} to {last}" for first, last in found.doubtful[:_NAMED]]
        more = ", ..." if len(found.doubtful) > _NAMED else ""
        what = f"offsets {', '.join(spans)}{more} can't be verified: {found.why}"
        level = logging.ERROR if found.is_damaged else logging.WARNING
        reporter, topic, partition = self.brought.reporter, self.topic, self.lease.partition[1]
        offsets = found.doubtful[0][0], found.doubtful[-1][1]
        reporter.log.records(
            level, "can't be verified; released", topic, partition, released, *offsets, str(found.why)
        )
        reporter.tell(Damaged(topic, partition, released, what))


def tell_ignored(reporter: Reporter, topic: str, partition: int, what: str) -> None:
    """A part of an answer that no broker means: to the log, and to whoever counts."""
    reporter.log.event(logging.ERROR, f"{topic}[{partition}]: damaged answer, partly ignored", what)
    reporter.tell(Damaged(topic, partition, 0, what))


def _decide(lease: Lease, first: int, last: int, kind: int) -> int:
    """Of what is held still; how many these were."""
    before = lease.undecided
    for offset in range(first, last + 1):
        lease.decide_if_held(offset, kind)
    return before - lease.undecided
