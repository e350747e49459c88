"""A source of batches for streams, without a broker."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from kshare.client.record import ShareBatch, lease_of
from kshare.client.streams import BatchStream, Inbox, RecordStream
from kshare.protocol.record_builder import BatchBuilder
from kshare.protocol.records import read_batches
from kshare.state.lease import Lease

P = (b"t" * 16, 0)


def batch(first: int, size: int, delivery_count: int = 1) -> ShareBatch:
    builder = BatchBuilder(base_offset=first)
    for offset in range(first, first + size):
        builder.append(b"%d" % offset, timestamp=0, offset=offset)
    return ShareBatch(
        "t", Lease(P, first, first + size - 1, delivery_count), list(read_batches(builder.build()))
    )


class Batches:
    """Returns these batches, then waits for ever."""

    def __init__(self, *batches: ShareBatch) -> None:
        self.given: list[ShareBatch] = []
        self._batches = list(batches)
        self.inbox = Inbox(lambda: None)
        self.too_late: list[tuple[int, int]] = []

    async def next_batch(self) -> ShareBatch:
        if not self._batches:
            await anyio.sleep_forever()
        self.given.append(self._batches.pop(0))
        return self.given[-1]

    async def take_urgent(self, delivery_count: int) -> ShareBatch | None:
        return self._batches.pop(0) if self.most_delivered() > delivery_count else None

    async def open_batch(self) -> None:
        self.inbox.put(await self.next_batch())

    def on_lock_lost(self, batch: ShareBatch, lost: list[tuple[int, int]]) -> None:
        self.too_late += lost

    def bring(self, batch: ShareBatch) -> None:
        self._batches.append(batch)

    def slice_size(self) -> int:
        return 2

    def most_delivered(self) -> int:
        return max((batch.delivery_count for batch in self._batches), default=0)

    def records(self, *, is_implicit: bool = True) -> RecordStream:
        return RecordStream(self, is_implicit=is_implicit)  # type: ignore[arg-type]

    def batches(self, *, is_implicit: bool = True) -> BatchStream:
        return BatchStream(self, is_implicit=is_implicit)  # type: ignore[arg-type]

    @property
    def states(self) -> list[int]:
        return [state for batch in self.given for state in lease_of(batch).states]
