"""What a loop over a consumer runs on: one record, or one batch, at a time.

Classes and not async generators: those, left by a `break`, would have to be closed by hand on trio.
In implicit mode what was handed out is accepted when the next is asked for, and at no other moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Self

from kshare.client.record import ShareBatch, ShareRecord
from kshare.state.acks import ACCEPT

NextBatch = Callable[[], Awaitable[ShareBatch]]


class BatchStream:
    """`tell` says that something was decided."""

    def __init__(self, next_batch: NextBatch, tell: Callable[[], None], *, is_implicit: bool) -> None:
        self._next_batch = next_batch
        self._tell = tell
        self._is_implicit = is_implicit
        self._in_hand: ShareBatch | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareBatch:
        if self._in_hand and self._is_implicit:
            self._in_hand.lease.decide_held(ACCEPT)
            self._tell()
        self._in_hand = None
        self._in_hand = await self._next_batch()
        return self._in_hand


class RecordStream:
    """Like `BatchStream`, record by record."""

    def __init__(self, next_batch: NextBatch, tell: Callable[[], None], *, is_implicit: bool) -> None:
        self._next_batch = next_batch
        self._tell = tell
        self._is_implicit = is_implicit
        self._in_hand: ShareRecord | None = None
        self._rest: Iterator[ShareRecord] = iter(())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord:
        if self._in_hand and self._is_implicit:
            self._in_hand.batch.lease.decide_if_held(self._in_hand.offset, ACCEPT)
        self._in_hand = next(self._rest, None)
        while self._in_hand is None:
            self._tell()
            self._rest = iter(await self._next_batch())
            self._in_hand = next(self._rest, None)
        return self._in_hand
