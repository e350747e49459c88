"""The iterators of loops over a consumer: record by record, or batch by batch.

They are classes because async generators that are left by a `break` must be closed explicitly on trio.
In implicit mode, what was handed out is accepted only when the loop asks for the next. However a loop ends, its current
record or batch isn't accepted: it is released when any loop asks for records again, or when the consumer is closed.
Therefore an iterator in implicit mode serves one task at a time: if a second task asked for a record, that would accept
the one that the first is still processing.

Compiled through `streams.pxd`: a record that is available is taken without a coroutine (see `awaiting`). After a
limited number of such records, other tasks get a chance to run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self

from anyio.lowlevel import checkpoint

import kshare.fast.await_slots as await_slots
import kshare.fast.coarse_clock as coarse_clock
import kshare.fast.current_task as current_task
from kshare.client.record import BatchIterator, ShareBatch, ShareRecord
from kshare.errors import KshareError
from kshare.fast.awaiting import NextRecord, RecordIterator
from kshare.fast.left_loops import Loop
from kshare.state.lease import ACCEPT, RELEASE, Lease

if TYPE_CHECKING:
    from kshare.client.consumer import ConsumerSource

_MAX_SLICE_MS = 50
"""After this time, other tasks get a chance to run even after few records: the user's code has blocked the event loop,
and locks may have expired meanwhile."""
_accept = ACCEPT
"""Again, as a C variable: see the .pxd."""


class BatchStream(Loop):
    """Iterates batch by batch."""

    __slots__ = ("_current", "_inbox", "_is_implicit", "_is_waiting", "_source", "_task")

    def __init__(self, source: ConsumerSource, *, is_implicit: bool) -> None:
        self._source = source
        self._inbox = source.inbox
        self._inbox.give_back()
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
            raise shared("another task is already waiting on it")
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
            raise shared(f"{batch!r} isn't settled, and another task is processing it")
        self._current = None
        lost: list[tuple[int, int]] = []
        for first, last in batch._spans:
            lost += batch._lost_spans(first, last)
        batch._settle_held(ACCEPT)
        if lost:
            self._source.on_lock_lost(batch, lost)

    def _on_left(self) -> None:
        try:
            inbox = self._inbox
        except AttributeError:  # `__init__` was interrupted. If compiled, it is None
            return
        if inbox is not None and self._current is not None:
            inbox.abandon(self._current)


class Inbox:
    """Records and batches that all loops over a consumer share: opened batches, and what ended loops were processing.

    `on_available` is called when something becomes available, to wake waiting tasks.
    """

    __slots__ = (
        "_dropped",
        "_is_attended",
        "_left",
        "_loops",
        "_on_available",
        "_opened",
        "_parked",
        "_unattended",
        "_unprepared",
        "walk",
    )

    def __init__(self, on_available: Callable[[], None]) -> None:
        self._loops = 0
        """Record loops that haven't ended."""
        self._is_attended = False
        """Whether `kshare.sync` has such loops, which don't count themselves: any thread ends them."""
        self._unattended: list[BatchIterator] = []
        """Opened batches whose lock was renewed while no loop was running."""
        self._opened: list[BatchIterator] = []
        self._left: list[ShareBatch | ShareRecord] = []
        """What ended loops were processing."""
        self._parked: deque[BatchIterator] = deque()
        """Batches in the middle of which a loop of another thread has ended, or another one was opened."""
        self._unprepared: deque[BatchIterator] = deque()
        """Batches whose preparation was cancelled: see `preparation`."""
        self._dropped: list[BatchIterator] = []
        """What was in here when the consumer was closed."""
        self.walk: Callable[[], BatchIterator | None] = lambda: None
        """What loops of `kshare.sync` are taking records from, if anything."""
        self._on_available = on_available

    def give_back(self) -> None:
        """Release what ended loops were processing, since a loop asks for records."""
        left, self._left = self._left, []
        for unfinished in left:
            if isinstance(unfinished, ShareBatch):
                unfinished._settle_held(RELEASE)
            else:
                unfinished.batch._lease.decide_if_held(unfinished.offset, RELEASE)

    def abandon(self, unfinished: ShareBatch | ShareRecord) -> None:
        """A loop ended while processing this. Not released at once: after a single `anext`, the user may settle it."""
        self._left.append(unfinished)
        self._on_available()

    def put(self, batch: ShareBatch) -> None:
        """Behind batches that were delivered as often, or more often: see `Holdings`."""
        opened = BatchIterator(batch)
        before = [iterator for iterator in self._opened if iterator.delivery_count >= opened.delivery_count]
        self._opened.insert(len(before), opened)
        if len(batch) > 1:
            self._on_available()

    @property
    def has_opened(self) -> bool:
        return bool(self._opened)

    @property
    def has_unread(self) -> bool:
        """Whether records of opened batches wait for a loop."""
        return any(iterator.unread() for iterator in self._begun())

    @property
    def delivery_count(self) -> int:
        """The highest one of a batch that a loop can go on with; 0 if there is none."""
        return max((iterator.delivery_count for iterator in (*self._opened, *self._parked)), default=0)

    def next_held(self) -> ShareRecord | None:
        while self._opened:
            iterator = self._opened[0]
            record = iterator.next_held()
            if record is not None:
                return record
            # It may have been removed meanwhile.
            if self._opened and self._opened[0] is iterator:
                del self._opened[0]
        return None

    def next_rest(self) -> ShareBatch | None:
        """The rest of a batch that record loops have opened, for loops over batches."""
        while self._opened:
            rest = self._opened.pop(0).rest()
            if rest is not None:
                return rest
        while (parked := self.parked()) is not None:
            rest = parked.rest() if self.unpark(parked) else None
            if rest is not None:
                return rest
        return None

    def park(self, iterator: BatchIterator) -> None:
        """For `kshare.sync`, in any thread. Whoever has it still, and goes on with it, shares it with the next one."""
        if iterator in self._unattended:
            self._unattended = [kept for kept in self._unattended if kept is not iterator]
        self._parked.append(iterator)

    def parked(self) -> BatchIterator | None:
        """What was delivered most often of what is parked, if anything is. In any thread."""
        return max([*self._parked], key=lambda parked: parked.delivery_count, default=None)

    def unpark(self, iterator: BatchIterator) -> bool:
        """Take it out, in any thread. False if it is no longer in there."""
        try:
            self._parked.remove(iterator)
        except ValueError:
            return False
        return True

    def put_unprepared(self, batch: ShareBatch) -> None:
        self._unprepared.append(BatchIterator(batch))
        self._on_available()

    def next_unprepared(self) -> ShareBatch | None:
        while self._unprepared:
            rest = self._unprepared.popleft().rest()
            if rest is not None:
                return rest
        return None

    def begin_loop(self) -> None:
        self._loops += 1
        self._unattended = []

    def end_loop(self) -> None:
        self._loops -= 1

    def attend(self, is_attended: bool) -> None:
        """`kshare.sync` has loops over records, or none any more. In any thread."""
        self._is_attended = is_attended
        if is_attended:
            self._unattended = []

    def release_unattended(self, lease: Lease) -> int:
        """Called before the lock of a lease is renewed. Releases its records if no loop has run since the last renewal.

        Returns how many. At the first renewal it releases nothing, since `anext` begins a loop for every single record.
        """
        if self._loops or self._is_attended:
            return 0
        released, unattended = 0, self._unattended
        for iterator in [*self._opened, *self._parked, *self._unprepared]:
            if not iterator.is_of(lease):
                continue
            if iterator not in unattended:
                unattended.append(iterator)
                continue
            try:
                unattended.remove(iterator)
                self._take_out(iterator)
            except ValueError:  # another thread has just taken it
                continue
            rest = iterator.rest()
            if rest is not None:
                released += len(rest)
                rest._settle_held(RELEASE)
        return released

    def unread(self, lease: Lease) -> list[tuple[int, int]]:
        """First and last offset of each range of held records of the lease that no loop has got."""
        waiting = [*self._begun(), *self._dropped]
        spans = {span for iterator in waiting if iterator.is_of(lease) for span in iterator.unread()}
        return sorted(spans)

    def _begun(self) -> list[BatchIterator]:
        walk = self.walk()
        walks = [] if walk is None else [walk]
        return [*self._opened, *self._parked, *self._unprepared, *walks]

    def forget_dropped(self) -> None:
        """The consumer is closed."""
        self._dropped.clear()

    def _take_out(self, iterator: BatchIterator) -> None:
        if iterator in self._opened:
            self._opened.remove(iterator)
        elif iterator in self._unprepared:
            self._unprepared.remove(iterator)
        else:
            self._parked.remove(iterator)

    def clear(self) -> None:
        """Drop all batches, since the consumer is being closed."""
        self._dropped += [*self._opened, *self._parked, *self._unprepared]
        self._opened.clear()
        self._parked.clear()
        self._unprepared.clear()
        self._unattended.clear()


class RecordStream(RecordIterator):
    """Iterates record by record."""

    __slots__ = ("_current", "_inbox", "_is_implicit", "_is_waiting", "_left", "_source", "_task", "_until")

    def __init__(self, source: ConsumerSource, *, is_implicit: bool) -> None:
        super().__init__()
        self._source = source
        self._inbox = source.inbox
        self._inbox.give_back()
        self._inbox.begin_loop()
        self._is_implicit = is_implicit
        self._current: ShareRecord | None = None
        self._task: object = None
        """The task that processes the current record."""
        self._is_waiting = False
        """Whether a task waits for the next record."""
        self._left = 0
        """How many records may be handed out before other tasks have to run."""
        self._until = 0
        """When other tasks have to run, even if `_left` isn't used up."""

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
            raise shared("another task is already waiting on it")
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
        is_overtaken = False
        if self._left == 0 or coarse_clock.coarse_ms() > self._until:
            await checkpoint()
            self._left = self._source.slice_size()
            self._until = coarse_clock.coarse_ms() + _MAX_SLICE_MS
            is_overtaken = self._source.most_delivered() > self._inbox.delivery_count
        self._left -= 1
        record = None if is_overtaken else self._inbox.next_held()
        while record is None:
            await self._source.open_batch()
            record = self._inbox.next_held()
        return record

    def _accept_current(self, task: object) -> None:
        record = self._current
        if record is not None:
            if task is not self._task and record.batch._lease.is_held(record.offset):
                raise shared(f"{record!r} isn't settled, and another task is processing it")
            self._current = None
            lease, offset = record.batch._lease, record.offset
            if not lease.accept_quietly(offset) and not lease.decide_if_held(offset, _accept):
                self._on_settled_before(record)

    def _on_settled_before(self, record: ShareRecord) -> None:
        """The user has acknowledged the record, or its lock was lost."""
        lost = record.batch._lost_spans(record.offset, record.offset)
        if lost:
            self._source.on_lock_lost(record.batch, lost)

    def _on_left(self) -> None:
        try:
            inbox = self._inbox
        except AttributeError:  # as above
            return
        if inbox is not None:
            inbox.end_loop()
            if self._current is not None:
                inbox.abandon(self._current)


def shared(reason: str) -> KshareError:
    return KshareError(
        f"this iterator is shared by several tasks: {reason}. Continuing would accept records that are still being "
        "processed. Write `async for record in consumer` in each task instead: the loops share the consumer's records"
    )


await_slots.await_quickly(NextRecord)
