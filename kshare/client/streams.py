"""What a loop over a consumer runs on: one record, or one batch, at a time.

Classes and not async generators: those, left by a `break`, would have to be closed by hand on trio.
In implicit mode what was handed out is accepted when the next is asked for, and at no other moment. However a loop is
left, what it had in hand isn't accepted: it is given back when any loop next asks for records, or when the consumer is
closed. So in implicit mode an iterator serves one task at a time: another that asked would accept what the first works
on.

Compiled through `streams.pxd`: a record that is there is taken without a coroutine (see `awaiting`). So that such a
loop doesn't keep everybody else from running, it lets them every so many records.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, Self

from anyio.lowlevel import checkpoint

import kshare.fast.await_slots as await_slots
import kshare.fast.coarse_clock as coarse_clock
import kshare.fast.current_task as current_task
from kshare.client.record import BatchIterator, ShareBatch, ShareRecord
from kshare.errors import KshareError
from kshare.fast.awaiting import NextRecord, RecordIterator
from kshare.fast.left_loops import Loop
from kshare.state.lease import ACCEPT, RELEASE, Lease

_MAX_BURST_MS = 50
"""However few records went by: the user's code has held the loop up, and locks may be over meanwhile."""


class BatchSource(Protocol):
    """Where batches come from."""

    async def next_batch(self) -> ShareBatch:
        """Lets everybody else run, too."""
        ...

    async def open_batch(self) -> None:
        """Until there are records on the shelf; lets everybody else run, too."""
        ...

    def burst_size(self) -> int:
        """How many records may be handed out before everybody else has to run again.

        What has expired by now isn't among them.
        """
        ...

    def on_lock_lost(self, batch: ShareBatch, lost: list[tuple[int, int]]) -> None:
        """A loop came back for the next, but the locks of these offsets were lost meanwhile."""
        ...


class BatchStream(Loop):
    """Batch by batch."""

    __slots__ = ("_current", "_inbox", "_is_implicit", "_is_waiting", "_source", "_task")

    def __init__(self, source: BatchSource, inbox: Inbox, *, is_implicit: bool) -> None:
        inbox.give_back()
        self._source = source
        self._inbox = inbox
        self._is_implicit = is_implicit
        self._current: ShareBatch | None = None
        self._task: object = None
        self._is_waiting = False

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, ShareBatch]:
        return self._next(current_task.current_task())

    async def _next(self, task: object) -> ShareBatch:
        if not self._is_implicit:
            return await self._source.next_batch()
        if self._is_waiting:
            raise shared("it waits for another task already")
        self._is_waiting = True
        try:
            self._accept_current(task)
            batch = await self._source.next_batch()
        finally:
            self._is_waiting = False
        self._current, self._task = batch, task
        return batch

    def _accept_current(self, task: object) -> None:
        batch = self._current
        if batch is None:
            return
        if task is not self._task and batch.is_held:
            raise shared(f"{batch!r} isn't settled, and another task works on it")
        self._current = None
        lost: list[tuple[int, int]] = []
        for first, last in batch._spans:
            lost += batch._lost_spans(first, last)
        batch._settle_held(ACCEPT)
        if lost:
            self._source.on_lock_lost(batch, lost)

    def _on_left(self) -> None:
        if self._current is not None:
            self._inbox.abandon(self._current)


class Inbox:
    """What all loops of a consumer share: batches that one of them opened, and what those that ended had in hand.

    `on_available` is called when something becomes available here, for those that wait.
    """

    __slots__ = ("_left", "_loops", "_on_available", "_opened", "_unattended")

    def __init__(self, on_available: Callable[[], None]) -> None:
        self._loops = 0
        """Record loops that haven't ended."""
        self._unattended: list[BatchIterator] = []
        """Opened batches whose lock was renewed while there was no loop."""
        self._opened: list[BatchIterator] = []
        self._left: list[ShareBatch | ShareRecord] = []
        self._on_available = on_available

    def give_back(self) -> None:
        """Somebody asks for records: the loops that were left won't come back for what they had in hand."""
        left, self._left = self._left, []
        for one in left:
            if isinstance(one, ShareBatch):
                one._settle_held(RELEASE)
            else:
                one.batch._lease.decide_if_held(one.offset, RELEASE)

    def abandon(self, unfinished: ShareBatch | ShareRecord) -> None:
        """Not given back at once: who has taken a single record by `anext` may still settle it."""
        self._left.append(unfinished)
        self._on_available()

    def put(self, batch: ShareBatch) -> None:
        self._opened.append(BatchIterator(batch))
        if len(batch) > 1:
            self._on_available()

    @property
    def has_opened(self) -> bool:
        return bool(self._opened)

    def next_held(self) -> ShareRecord | None:
        while self._opened:
            iterator = self._opened[0]
            record = iterator.next_held()
            if record is not None:
                return record
            # Others may have taken it away meanwhile.
            if self._opened and self._opened[0] is iterator:
                del self._opened[0]
        return None

    def next_rest(self) -> ShareBatch | None:
        """What record loops have opened and not come to, for those who ask for batches."""
        while self._opened:
            rest = self._opened.pop(0).rest()
            if rest is not None:
                return rest
        return None

    def begin_loop(self) -> None:
        self._loops += 1
        self._unattended.clear()

    def end_loop(self) -> None:
        self._loops -= 1

    def release_unattended(self, lease: Lease) -> int:
        """Its lock is to be renewed. Says how many records are released instead: no loop came for them since last time.

        Not the first time, since whoever takes single records by `anext` begins a loop for each.
        """
        released = 0
        for iterator in list(self._opened) if self._loops == 0 else ():
            if not iterator.is_of(lease):
                continue
            if iterator not in self._unattended:
                self._unattended.append(iterator)
                continue
            self._unattended.remove(iterator)
            self._opened.remove(iterator)
            rest = iterator.rest()
            if rest is not None:
                released += len(rest)
                rest._settle_held(RELEASE)
        return released

    def clear(self) -> None:
        """The consumer is being closed: nothing is handed out any more."""
        self._opened.clear()
        self._unattended.clear()


class RecordStream(RecordIterator):
    """Record by record."""

    __slots__ = ("_current", "_inbox", "_is_implicit", "_is_waiting", "_left", "_source", "_task", "_until")

    def __init__(self, source: BatchSource, inbox: Inbox, *, is_implicit: bool) -> None:
        super().__init__()
        inbox.give_back()
        inbox.begin_loop()
        self._source = source
        self._inbox = inbox
        self._is_implicit = is_implicit
        self._current: ShareRecord | None = None
        self._task: object = None
        """Whose hand that is."""
        self._is_waiting = False
        """A task waits for the next."""
        self._left = 0
        self._until = 0
        """When this stretch ends, though there may be records left of it."""

    def take(self, task: object) -> ShareRecord | None:
        if self._left == 0 or self._is_waiting or coarse_clock.coarse_ms() > self._until:
            return None
        if self._is_implicit:
            self._accept_current(task)
        self._left -= 1
        record = self._inbox.next_held()
        if self._is_implicit:
            self._current = record
            if task is not self._task:
                self._task = task
        return record

    async def wait(self, task: object) -> ShareRecord:
        if not self._is_implicit:
            return await self._next()
        if self._is_waiting:
            raise shared("it waits for another task already")
        self._is_waiting = True
        try:
            self._accept_current(task)
            record = await self._next()
        finally:
            self._is_waiting = False
        self._current = record
        self._task = task
        return record

    async def _next(self) -> ShareRecord:
        self._inbox.give_back()
        if self._left == 0 or coarse_clock.coarse_ms() > self._until:
            await checkpoint()
            self._left = self._source.burst_size()
            self._until = coarse_clock.coarse_ms() + _MAX_BURST_MS
        self._left -= 1
        record = self._inbox.next_held()
        while record is None:
            await self._source.open_batch()
            record = self._inbox.next_held()
        return record

    def _accept_current(self, task: object) -> None:
        record = self._current
        if record is not None:
            if task is not self._task and record.batch._lease.is_held(record.offset):
                raise shared(f"{record!r} isn't settled, and another task works on it")
            self._current = None
            if not record.batch._lease.decide_if_held(record.offset, ACCEPT):
                self._on_settled_before(record)

    def _on_settled_before(self, record: ShareRecord) -> None:
        """By the user's own word, or lost."""
        lost = record.batch._lost_spans(record.offset, record.offset)
        if lost:
            self._source.on_lock_lost(record.batch, lost)

    def _on_left(self) -> None:
        self._inbox.end_loop()
        if self._current is not None:
            self._inbox.abandon(self._current)


def shared(why: str) -> KshareError:
    return KshareError(
        f"this iterator is shared by several tasks: {why}. To go on would accept what isn't finished. Write "
        "`async for record in consumer` in each task instead: these loops share what is there"
    )


await_slots.await_quickly(NextRecord)
