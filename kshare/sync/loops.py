"""The iterators of loops over the synchronous consumer: record by record, or batch by batch.

As in `kshare.client.streams`, a loop keeps what it has handed out, and that alone is accepted, when the loop asks for
the next one. However a loop ends, what it had in hand isn't accepted: it is released when any loop asks for records
again, or when the consumer is closed.

All loops over records take them from one opened batch. An iterator may be passed on to another thread, but serves one
at a time: if a second thread asked for a record, that would accept the one that the first is still processing.

Compiled through `loops.pxd`: a record that is available is taken, and the one before it accepted, without running
Python code.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import kshare.fast.thread_id as thread_id
from kshare.client.record import BatchIterator, ShareBatch, ShareRecord, lease_of, settle_held
from kshare.client.streams import Inbox
from kshare.errors import KshareError
from kshare.fast.left_loops import Loop
from kshare.state.lease import RELEASE
from kshare.sync.decision_queue import DecisionQueue


class BlockingSource(NamedTuple):
    """What loops need of the consumer."""

    next_batch: Callable[[], ShareBatch]
    """Wait for a batch. Also lets the event loop run."""
    open_batch: Callable[[Callable[[ShareBatch], None]], None]
    """Wait for a batch, and call this with it. In the event loop: there, no interrupt comes between."""
    open_urgent: Callable[[Callable[[ShareBatch], None], int], None]
    """The same with one that was delivered more often than this, if there is one. Doesn't wait for one to arrive."""
    take_turn: Callable[[], None]
    """Let the event loop run, without waiting."""
    slice_size: Callable[[], int]
    """How many records may be handed out before the event loop has to run again."""
    most_delivered: Callable[[], int]
    """The highest delivery count of what waits to be opened; 0 if nothing does. It may be lost meanwhile."""
    apply_decisions: Callable[[], None]
    """Return when all decisions made so far have been applied to the leases."""
    inbox: Inbox


class OpenedBatch:
    """What all loops over a consumer share: the batch that they take records from, and what ended loops had in hand."""

    __slots__ = (
        "_iterating",
        "_lock",
        "_record_loops",
        "_source",
        "_unfinished",
        "decisions",
        "slice_left",
        "walk",
    )

    decisions: DecisionQueue
    """Those of the current opening."""

    def __init__(self, source: BlockingSource) -> None:
        self.walk: BatchIterator | None = None
        self.slice_left = 0
        """How many records may be handed out before the event loop has to run."""
        self._source = source
        self._unfinished: deque[ShareRecord | ShareBatch] = deque()
        """What loops had in hand when they were left. Any thread may add to it, as the garbage collector runs."""
        self._iterating: dict[object, threading.Thread] = {}
        """A token of each loop that hasn't ended, and its thread."""
        self._record_loops: set[object] = set()
        self._lock = threading.RLock()
        """Loops that are garbage end in any thread."""
        source.inbox.walk = self._opened_walk

    def open(self, decisions: DecisionQueue) -> None:
        """The consumer has been opened. What loops of a former opening had in hand is lost."""
        self.decisions = decisions
        self.walk, self.slice_left = None, 0
        self._unfinished.clear()
        self._iterating.clear()
        self._record_loops.clear()
        self._source.inbox.attend(False)

    @property
    def has_loops(self) -> bool:
        return bool(self._iterating)

    def require_turn(self) -> None:
        """Raise if another thread iterates: its records would be released or accepted by this one."""
        for other in list(self._iterating.values()):
            if other is threading.current_thread() or not other.is_alive():
                continue
            raise KshareError(
                f"thread {other.name!r} iterates over this consumer, and only one at a time may: give each thread a "
                "consumer of its own, or let one iterate and hand records to the others"
            )

    def begin(self, loop: object, *, takes_records: bool) -> None:
        self.require_turn()
        slice_size = self._source.slice_size()  # Python code, which a signal may interrupt: not with the lock
        with self._lock:
            self._iterating[loop] = threading.current_thread()
            if takes_records:
                if not self._record_loops:
                    self.slice_left = slice_size
                    self._unpark()
                self._record_loops.add(loop)
                self._source.inbox.attend(True)

    def end(self, loop: object, unfinished: ShareRecord | ShareBatch | None) -> None:
        """In any thread. The last loop over records leaves the opened batch to loops of the future."""
        if unfinished is not None:
            self._unfinished.append(unfinished)
        with self._lock:
            self._iterating.pop(loop, None)
            self._record_loops.discard(loop)
            if not self._record_loops:
                self._source.inbox.attend(False)
                self._park()

    def leave_walk(self) -> None:
        """In the event loop. The consumer is closed: no loop gets what the opened batch has left.

        Without the lock: a signal handler may close the consumer in the thread that has it, and waits for this.
        """
        self._park()

    # An interrupt may come between any two steps. Two that have the same iterator get different records; what nobody
    # has is lost until its lock expires.

    def _park(self) -> None:
        walk = self.walk  # which the event loop may replace meanwhile
        if walk is not None:
            self._source.inbox.park(walk)
            self.walk = None

    def _unpark(self) -> None:
        if self.walk is not None:
            return
        inbox = self._source.inbox
        self.walk = inbox.parked()
        if self.walk is not None and not inbox.unpark(self.walk):
            self.walk = None

    def give_back(self) -> None:
        """Release what ended loops had in hand: they won't continue."""
        while self._unfinished:
            left = self._unfinished[0]
            if isinstance(left, ShareBatch):
                settle_held(left, RELEASE)
            else:
                self.decisions.settle_if_held(lease_of(left.batch), left.offset, RELEASE)
            if self._unfinished and self._unfinished[0] is left:  # only now: see `_park`
                self._unfinished.popleft()

    def go_on(self, loop: object) -> None:
        """Let the event loop run, and open the next batch if none is open."""
        if loop not in self._record_loops:  # it is of a former opening
            self.begin(loop, takes_records=True)
        if self.walk is None:
            self.give_back()
            self._source.open_batch(self._walk_through)
        else:
            self._source.take_turn()
            walk = self.walk
            if walk is not None and self._source.most_delivered() > walk.delivery_count:
                self._source.open_urgent(self._walk_through, walk.delivery_count)
        self.slice_left = self._source.slice_size()

    def _walk_through(self, batch: ShareBatch) -> None:
        """Before the rest of the batch that is open now, if there is one."""
        walk = BatchIterator(batch)
        if not self._record_loops:  # interrupted meanwhile, and ended
            self._source.inbox.park(walk)
            return
        self._park()
        self.walk = walk

    def close_walk(self, walk: BatchIterator) -> None:
        """It has no more records."""
        if self.walk is walk:
            self.walk = None

    def _opened_walk(self) -> BatchIterator | None:
        return self.walk


class BlockingLoop(Loop):
    """The base class of both loops."""

    __slots__ = (
        "_current",
        "_is_asking",
        "_is_closed",
        "_is_implicit",
        "_is_on",
        "_opened",
        "_thread",
        "_token",
    )

    def __init__(self, opened: OpenedBatch, *, is_implicit: bool) -> None:
        self._is_implicit = is_implicit
        self._is_asking = False
        """A thread waits for what follows."""
        self._is_on = False
        """It has begun, and neither ended nor raised since."""
        self._is_closed = False
        self._current: ShareRecord | ShareBatch | None = None
        """What the user has in hand. Always None in explicit mode."""
        self._thread = 0
        """The thread that has it."""
        self._token = object()
        self._opened = opened  # last: see `_on_left`

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ShareRecord | ShareBatch:
        if self._is_asking:
            raise _shared("another thread is waiting on it")
        if self._is_closed:
            raise StopIteration
        try:
            self._is_asking = True  # first of all: handing over lets other threads run
            if self._current is not None and thread_id.thread_id() != self._thread:
                self._hand_over(self._current)
            if not self._is_on:
                self._begin()
            if self._current is not None:
                # In this order: what an interrupt comes in between of is accepted, since the user has asked.
                self._accept_current()
                self._current = None
            item = self._take()
            if self._is_implicit:
                self._current = item
            return item
        except BaseException:
            if self._current is None or thread_id.thread_id() == self._thread:
                self._end()  # else another thread has it, and goes on
            raise
        finally:
            self._is_asking = False

    def close(self) -> None:
        """End the loop. As if it was left with `break`, what it has handed out last isn't accepted."""
        if self._is_asking:
            raise _shared("another thread is waiting on it")
        self._is_closed = True
        self._end()

    def _begin(self) -> None:
        if self._opened is None:
            raise TypeError("loops are created by their consumer")
        self._opened.begin(self._token, takes_records=self._takes_records())
        self._is_on = True
        self._thread = thread_id.thread_id()

    def _end(self) -> None:
        self._is_on = False
        if self._opened is not None:
            self._opened.end(self._token, self._current)
        self._current = None

    def _on_left(self) -> None:
        try:
            opened = self._opened
        except AttributeError:  # `__init__` was interrupted. If compiled, it is None
            return
        if opened is not None:
            self._end()

    def _hand_over(self, current: ShareRecord | ShareBatch) -> None:
        """Called if another thread asks for what follows. Raises if it can't know that this one is finished."""
        self._opened._source.apply_decisions()
        if isinstance(current, ShareBatch):
            is_held = current.is_held
        else:
            is_held = lease_of(current.batch).is_held(current.offset)
        if is_held:
            raise _shared(f"{current!r} isn't acknowledged, and another thread is processing it")
        self._thread = thread_id.thread_id()

    def _takes_records(self) -> bool:
        raise NotImplementedError

    def _accept_current(self) -> None:
        raise NotImplementedError

    def _take(self) -> ShareRecord | ShareBatch:
        """Wait for what follows."""
        raise NotImplementedError


class RecordLoop(BlockingLoop):
    """Iterates record by record."""

    __slots__ = ()

    def _takes_records(self) -> bool:
        return True

    def _accept_current(self) -> None:
        record: Any = self._current
        self._opened.decisions.accept(record.batch, record.offset)

    def _take(self) -> ShareRecord | ShareBatch:
        opened = self._opened
        while True:
            walk = opened.walk
            if walk is not None and opened.slice_left > 0:
                opened.slice_left -= 1
                record = walk.next_held()
                if record is not None:
                    return record
                opened.close_walk(walk)
            opened.go_on(self._token)


class BatchLoop(BlockingLoop):
    """Iterates batch by batch."""

    __slots__ = ()

    def _takes_records(self) -> bool:
        return False

    def _accept_current(self) -> None:
        batch: Any = self._current
        self._opened.decisions.accept_batch(batch)

    def _take(self) -> ShareRecord | ShareBatch:
        return self._opened._source.next_batch()


def _shared(reason: str) -> KshareError:
    return KshareError(
        f"this iterator is shared by several threads: {reason}. Continuing would accept what is still being processed. "
        'Let one thread iterate and hand records to the others, with acknowledgement="explicit"'
    )
