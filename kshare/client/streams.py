"""What a loop over a consumer runs on: one record, or one batch, at a time.

Classes and not async generators: those, left by a `break`, would have to be closed by hand on trio.
In implicit mode what was handed out is accepted when the next is asked for, and at no other moment. However a loop is
left, what it had in hand isn't accepted: it is given back when the next loop begins, or the consumer is closed.

Compiled through `streams.pxd`: a record that is there is taken without a coroutine (see `awaiting`). So that such a
loop doesn't keep everybody else from running, it lets them every so many records.
"""

from __future__ import annotations

from typing import Protocol, Self

from anyio.lowlevel import checkpoint

import kshare.client.shortcut as shortcut
from kshare.client.awaiting import NextRecord, Records
from kshare.client.record import Handles, ShareBatch, ShareRecord
from kshare.state.lease import ACCEPT, RELEASE


class Source(Protocol):
    """Where batches come from."""

    async def next_batch(self) -> ShareBatch:
        """Lets everybody else run, too."""
        ...

    def stretch(self) -> int:
        """How many records may be handed out before everybody else has to run again."""
        ...


class BatchStream:
    """Batch by batch."""

    __slots__ = ("_in_hand", "_is_implicit", "_shelf", "_source")

    def __init__(self, source: Source, shelf: Shelf, *, is_implicit: bool) -> None:
        shelf.begin()
        self._source = source
        self._shelf = shelf
        self._is_implicit = is_implicit
        self._in_hand: ShareBatch | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareBatch:
        if self._in_hand is not None and self._is_implicit:
            self._in_hand.accept()
        self._in_hand = None
        self._in_hand = await self._source.next_batch()
        return self._in_hand

    def __del__(self) -> None:
        if self._in_hand is not None and self._is_implicit:
            self._shelf.leave(self._in_hand)


class Shelf:
    """What one loop leaves for the next: batches that it hadn't gone through, and what it had in hand."""

    __slots__ = ("_left", "_opened")

    def __init__(self) -> None:
        self._opened: list[Handles] = []
        self._left: list[ShareBatch | ShareRecord] = []

    def begin(self) -> None:
        """A new loop: the last one won't come back for what it had in hand."""
        for one in self._left:
            if isinstance(one, ShareBatch):
                one.lease.decide_held(RELEASE)
            else:
                one.batch.lease.decide_if_held(one.offset, RELEASE)
        self._left.clear()

    def leave(self, in_hand: ShareBatch | ShareRecord) -> None:
        """Not given back at once: who has taken a single record by `anext` may still settle it."""
        self._left.append(in_hand)

    def put(self, batch: ShareBatch) -> None:
        self._opened.append(Handles(batch))

    def next_held(self) -> ShareRecord | None:
        while self._opened:
            handles = self._opened[0]
            record = handles.next_held()
            if record is not None:
                return record
            del self._opened[0]
        return None


class RecordStream(Records):
    """Record by record."""

    __slots__ = ("_in_hand", "_is_implicit", "_left", "_shelf", "_source")

    def __init__(self, source: Source, shelf: Shelf, *, is_implicit: bool) -> None:
        super().__init__()
        shelf.begin()
        self._source = source
        self._shelf = shelf
        self._is_implicit = is_implicit
        self._in_hand: ShareRecord | None = None
        self._left = 0

    def take(self) -> ShareRecord | None:
        self._put_down()
        if self._left == 0:
            return None
        self._left -= 1
        self._in_hand = self._shelf.next_held()
        return self._in_hand

    async def wait(self) -> ShareRecord:
        self._put_down()
        if self._left == 0:
            await checkpoint()
            self._left = self._source.stretch()
        self._left -= 1
        record = self._shelf.next_held()
        while record is None:
            self._shelf.put(await self._source.next_batch())
            record = self._shelf.next_held()
        self._in_hand = record
        return record

    def _put_down(self) -> None:
        record = self._in_hand
        if record is not None:
            self._in_hand = None
            if self._is_implicit:
                record.batch.lease.decide_if_held(record.offset, ACCEPT)

    def __del__(self) -> None:
        if self._in_hand is not None and self._is_implicit:
            self._shelf.leave(self._in_hand)


shortcut.await_quickly(NextRecord)
