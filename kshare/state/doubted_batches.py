"""Record batches whose base offset nothing in their response confirms, and whether earlier responses do.

No checksum covers a base offset. If the same batch comes a second time at the same offset, it wasn't moved: damage
would have to change the same bits in both responses.

Decides nothing about records: `coverage` says which batches are doubtful.
"""

from __future__ import annotations

from typing import NamedTuple

from kshare.protocol.records import Batch
from kshare.state.lease import TopicIdPartition

MOST_REMEMBERED = 1000


class _Seen(NamedTuple):
    partition: TopicIdPartition
    base_offset: int
    size: int
    checksum: int


class DoubtedBatches:
    """Those that one member has seen. The oldest are forgotten."""

    def __init__(self) -> None:
        self._seen: dict[_Seen, None] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def was_here(self, partition: TopicIdPartition, batch: Batch) -> bool:
        """Whether it was doubted at the same offset before; it is remembered now. Call it once for each response."""
        seen = _Seen(partition, batch.base_offset, batch.size, batch.checksum)
        if seen in self._seen:
            return True
        self._seen[seen] = None
        if len(self._seen) > MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return False
