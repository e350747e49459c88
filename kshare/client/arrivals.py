"""Fetched partitions that wait to be handed out. They aren't decoded before, so that the next fetch can be sent first.

Decides which of their records can be handed out. `kshare.state.coverage` tells which offsets are gaps and which are
doubtful. Doubtful offsets are released: acknowledged as gaps, they would never be delivered again. Never decides who
gets the records, or when.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from kshare.engine.events import Damaged
from kshare.engine.lease_book import LeaseBook
from kshare.protocol.decompression_budget import DecompressionLimit
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.protocol.records import Batch
from kshare.state.coverage import Coverage, RangeContents
from kshare.state.lease import GAP, RELEASE, Lease
from kshare.state.unseen_releases import SAFE_LEFT

_NAMED = 5
"""The maximum number of offset ranges in a message about released records."""


class FetchedPartition:
    """The records of one partition in one fetch response."""

    def __init__(
        self,
        leases: Sequence[Lease],
        data: PartitionData,
        book: LeaseBook,
        limit: DecompressionLimit | None = None,
    ) -> None:
        """`leases`: everything that the response acquired."""
        acquired = [(lease.first, lease.last) for lease in leases]
        self.coverage = Coverage(
            data.records, acquired, limit, lambda batch: book.doubted.was_here(leases[0].partition, batch)
        )
        self.book = book
        self.kept: set[int] = set()
        """First offsets of the leases that stay locked because nothing of them can be handed out."""


class PendingBatch(NamedTuple):
    """Records that were acquired together."""

    topic: str
    lease: Lease
    fetched: FetchedPartition

    def verify(self) -> list[Batch]:
        """Verify the records, and return the record batches that contain them.

        Doubtful offsets are released: the next fetch may return them intact. If all of the lease is damaged, it stays
        locked for a growing time before; what stays damaged is archived at the group's delivery limit. Batches over the
        limit of decompressed bytes stay locked for good. Offsets that compaction may have removed are released at once:
        most have no record, and a pause would hold up the partition. So are records that may have moved, in their first
        delivery: the next one may confirm them. After that, their releases have a price.
        """
        lease = self.lease
        contents = self.fetched.coverage.of(lease.first, lease.last, is_near_limit=self._is_near_limit)
        for first, last in contents.gaps:
            _decide(lease, first, last, GAP)
        if contents.oversized:
            self._keep(contents)
        if contents.unverified:
            self._release(contents)
        lease.leader_epochs = [
            (batch.base_offset, batch.last_offset, batch.leader_epoch) for batch in contents.batches
        ]
        return contents.batches

    def _keep(self, contents: RangeContents) -> None:
        book, (topic, partition) = self.fetched.book, (self.topic, self.lease.partition[1])
        kept = book.keep_oversized(self.lease, contents.oversized, contents.oversized_reason)
        if kept:
            book.reporter.report(Damaged(topic, partition, kept, contents.oversized_reason))

    @property
    def _is_near_limit(self) -> bool:
        """Whether too few deliveries are left to wait for another one."""
        count = self.lease.delivery_count
        return count > 1 and self.fetched.book.unseen.left(count) < SAFE_LEFT

    def _release(self, contents: RangeContents) -> None:
        book, lease, reason = self.fetched.book, self.lease, str(contents.reason)
        if contents.is_damaged and not contents.batches:
            if lease.first in self.fetched.kept:
                return
            self.fetched.kept.add(lease.first)
            pause_s = book.keep_unseen(lease, contents.unverified)
            released, reason = lease.undecided, f"{reason} (released in {pause_s:.1f} s)"
        elif contents.is_damaged:
            released = book.release_unseen(lease, contents.unverified)
        else:
            released = book.release_unseen(lease, contents.moved) if lease.delivery_count > 1 else 0
            released += sum(_decide(lease, first, last, RELEASE) for first, last in contents.unverified)
        if not released:
            return
        spans = [f"{first} to {last}" for first, last in contents.unverified[:_NAMED]]
        ellipsis = ", ..." if len(contents.unverified) > _NAMED else ""
        description = f"offsets {', '.join(spans)}{ellipsis} can't be verified: {contents.reason}"
        level = logging.ERROR if contents.is_damaged else logging.WARNING
        reporter, topic, partition = book.reporter, self.topic, lease.partition[1]
        offsets = contents.unverified[0][0], contents.unverified[-1][1]
        reporter.log.records(
            level, "can't be verified; released", topic, partition, released, *offsets, reason
        )
        reporter.report(Damaged(topic, partition, released, description))


def _decide(lease: Lease, first: int, last: int, kind: int) -> int:
    """Decide those of these offsets that are still held; return how many."""
    undecided_before = lease.undecided
    for offset in range(first, last + 1):
        lease.decide_if_held(offset, kind)
    return undecided_before - lease.undecided
