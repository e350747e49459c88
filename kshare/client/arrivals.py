"""What a fetch brought, until somebody asks for it: not looked into before, so that the next fetch can leave first.

Decides what of it can be handed out. `kshare.state.coverage` says which offsets are gaps and which are doubtful: those
are released, for a gap is never delivered again. Never decides to whom, or when.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from kshare.engine.events import Damaged
from kshare.engine.reporter import Reporter
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.protocol.records import Batch
from kshare.state.coverage import Coverage, RangeContents
from kshare.state.lease import GAP, RELEASE, Lease

_NAMED = 5
"""Stretches of offsets that are named when records are released."""


class FetchedPartition:
    """The records of one partition in one answer."""

    def __init__(self, leases: Sequence[Lease], data: PartitionData, reporter: Reporter) -> None:
        """`leases`: all that the answer acquired."""
        self.coverage = Coverage(data.records, [(lease.first, lease.last) for lease in leases])
        self.reporter = reporter


class PendingBatch(NamedTuple):
    """Records that were acquired together."""

    topic: str
    lease: Lease
    fetched: FetchedPartition

    def verify(self) -> list[Batch]:
        """Checks them, and gives the batches that they are in.

        What nothing accounts for is given back. Another fetch may bring it whole, and the broker's delivery limit ends
        it if it stays broken.
        """
        lease = self.lease
        found = self.fetched.coverage.of(lease.first, lease.last, lease.delivery_count)
        for first, last in found.gaps:
            _decide(lease, first, last, GAP)
        if found.unverified:
            self._release(found)
        lease.leader_epochs = [
            (batch.base_offset, batch.last_offset, batch.leader_epoch) for batch in found.batches
        ]
        return found.batches

    def _release(self, found: RangeContents) -> None:
        released = sum(_decide(self.lease, first, last, RELEASE) for first, last in found.unverified)
        if not released:
            return
        spans = [f"{first} to {last}" for first, last in found.unverified[:_NAMED]]
        more = ", ..." if len(found.unverified) > _NAMED else ""
        what = f"offsets {', '.join(spans)}{more} can't be verified: {found.why}"
        level = logging.ERROR if found.is_damaged else logging.WARNING
        reporter, topic, partition = self.fetched.reporter, self.topic, self.lease.partition[1]
        offsets = found.unverified[0][0], found.unverified[-1][1]
        reporter.log.records(
            level, "can't be verified; released", topic, partition, released, *offsets, str(found.why)
        )
        reporter.report(Damaged(topic, partition, released, what))


def _decide(lease: Lease, first: int, last: int, kind: int) -> int:
    """Of what is held still; how many these were."""
    before = lease.undecided
    for offset in range(first, last + 1):
        lease.decide_if_held(offset, kind)
    return before - lease.undecided
