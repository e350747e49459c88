"""Which record batches a `read_committed` reader skips.

A fetch with `read_committed` still returns the batches of aborted transactions. The response lists these transactions
by producer id and first offset. A producer has one transaction at a time, which ends at its marker:

    next in the log                | effect
    -------------------------------+------------------------------------------------
    a listed transaction's start   | hides the producer's transactional batches
    its abort marker               | stops hiding them
    another control batch          | hidden itself, changes nothing
    any other batch                | hidden if its producer's transaction is aborted

Decides this for one response at a time, since each response lists all the transactions it needs. `read_uncommitted`
readers pass no list; control batches are hidden from them, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import itemgetter

from kshare.protocol.records import Batch, ControlType


class AbortedTransactions:
    """Create one per response, and ask it about each of the batches in order."""

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
