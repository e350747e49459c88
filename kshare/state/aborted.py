"""Which batches a reader of committed records leaves out.

A fetch of committed records still brings whole batches: those of aborted transactions are among them, and the answer
lists these transactions, by producer and first offset. A producer has one at a time, and it ends at its marker:

    met, in the log's order        | effect
    -------------------------------+------------------------------------------------
    a listed transaction's start   | the producer's transactional batches are hidden
    its abort marker               | not any more
    another control batch          | hidden itself, changes nothing
    anything else                  | hidden if its producer's transaction is aborted

Decides that for one answer at a time, for each lists all that it needs. Readers of uncommitted records give no list;
control batches are hidden from them as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import itemgetter

from kshare.protocol.records import Batch, ControlType


class AbortedTransactions:
    """Made for each answer; asked about each of its batches, in order."""

    def __init__(self, listed: Iterable[tuple[int, int]] = ()) -> None:
        """`listed` holds producer ids and first offsets."""
        self._coming = deque(sorted(listed, key=itemgetter(1)))
        self._open: set[int] = set()

    def hides(self, batch: Batch) -> bool:
        while self._coming and self._coming[0][1] <= batch.last_offset:
            self._open.add(self._coming.popleft()[0])
        if batch.is_control:
            if batch.producer_id in self._open and batch.control_type == ControlType.ABORT:
                self._open.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._open
