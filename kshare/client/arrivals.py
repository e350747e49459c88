"""What a fetch brought, until somebody asks for it: not looked into before, so that the next fetch can leave first.

Decides what of it can be handed out. Never decides to whom, or when.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from kshare.client.record import mark_gaps
from kshare.errors import CorruptBatchError
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.protocol.records import Batch, read_batches
from kshare.state.lease import RELEASE, Lease
from kshare.summary_log import SummaryLog


class Brought:
    """The records of one partition in one answer, whoever acquired them."""

    def __init__(self, data: PartitionData) -> None:
        self._records = data.records
        self._batches: Sequence[Batch] | None = None

    def within(self, lease: Lease) -> list[Batch]:
        """The batches that hold some of these offsets; checked."""
        if self._batches is None:
            self._batches = list(read_batches(self._records))
        found = [
            one for one in self._batches if one.base_offset <= lease.last and lease.first <= one.last_offset
        ]
        for batch in found:
            batch.open()
        return found


class Arrival(NamedTuple):
    """Records that were acquired together."""

    topic: str
    lease: Lease
    brought: Brought

    def look(self, log: SummaryLog) -> list[Batch] | None:
        """Checks them, and gives the batches that they are in; None where they are broken, and given back.

        Another fetch may bring them whole, and the broker's delivery limit ends them if they stay broken.
        """
        lease = self.lease
        try:
            batches = self.brought.within(lease)
            mark_gaps(lease, batches)
        except CorruptBatchError as error:
            place = (self.topic, lease.partition[1], len(lease.states), lease.first, lease.last)
            log.records(logging.ERROR, "in broken batches; released", *place, detail=str(error))
            lease.decide_held(RELEASE)
            return None
        lease.epochs = [(batch.base_offset, batch.last_offset, batch.leader_epoch) for batch in batches]
        return batches
