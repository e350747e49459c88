"""Decisions of the user's threads, until the event loop applies them to the leases.

While no thread runs the event loop, decisions are applied at once. Otherwise they are queued for it. The records that a
loop accepts implicitly aren't queued one by one: the loop's progress is checked from time to time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kshare.client.consumer import AsyncConsumer, source_of
from kshare.client.record import ShareBatch, ShareRecord, decide_held, lease_of, lost_spans_of, spans_of
from kshare.state.lease import ACCEPT, Lease
from kshare.sync.settlements import Decide, Settlements
from kshare.sync.shared_loop import LoopClosed, SharedLoop

_GATHER_S = 0.003


class Passage:
    """How far a loop has come in a lease. The user's thread sets `at` and `passed`, the event loop everything else."""

    __slots__ = ("_batch", "_consumer", "_next", "_passed", "at", "is_over")

    def __init__(self, first: ShareRecord, consumer: AsyncConsumer[Any]) -> None:
        self._batch = first.batch
        self._consumer = consumer
        self._next = first.offset
        self._passed = first.offset - 1
        self.at: ShareRecord | None = first
        """The record in the user's hands. All records before it are finished."""
        self.is_over = False
        """Another loop has been started, or has continued, since: what is passed from now on isn't noticed."""

    def come_back(self) -> None:
        """The user asks for the next record."""
        at = self.at
        if at is not None:
            self._passed = at.offset
            self.at = None

    @property
    def passed(self) -> int:
        """The last offset that is finished."""
        at = self.at
        return self._passed if at is None else at.offset - 1

    def accept(self, last: int, kind: int = ACCEPT) -> None:
        """Accept all undecided records up to this offset."""
        if last < self._next:
            return
        lease = lease_of(self._batch)
        lease.decide_held_within(self._next, last, kind)
        lost = lost_spans_of(self._batch, self._next, last) if lease.loss_reason else []
        if lost:
            source_of(self._consumer).on_lock_lost(self._batch, lost)
        self._next = last + 1

    @property
    def is_behind(self) -> bool:
        return self._next <= self.passed


_decide_if_held: Decide = Lease.decide_if_held
_accept: Decide = Passage.accept


def _accept_batch(subject: tuple[AsyncConsumer[Any], ShareBatch], _offset: int, kind: int) -> None:
    consumer, batch = subject
    lost = [span for first, last in spans_of(batch) for span in lost_spans_of(batch, first, last)]
    decide_held(batch, kind)
    if lost:
        source_of(consumer).on_lock_lost(batch, lost)


def _decide_spans(subject: tuple[Lease, Sequence[tuple[int, int]]], _offset: int, kind: int) -> None:
    lease, spans = subject
    for first, last in spans:
        lease.decide_held_within(first, last, kind)


def _decide_all(lease: Lease, _offset: int, kind: int) -> None:
    lease.decide_held(kind)


class DecisionQueue(Settlements):
    """All methods except `clear` and `close` may be called in any thread."""

    def __init__(self, consumer: AsyncConsumer[Any]) -> None:
        super().__init__(self.schedule)
        self._consumer = consumer
        self.progress: Passage | None = None
        """The progress of the current loop."""
        self._is_closed = False
        self._loop = SharedLoop(self)

    @property
    def loop(self) -> SharedLoop:
        return self._loop

    def settle_if_held(self, lease: Lease, offset: int, kind: int) -> None:
        self.queue.append((_decide_if_held, lease, offset, kind))
        self.schedule()

    def accept_batch(self, batch: ShareBatch) -> None:
        """A loop has finished this batch. Lost records are reported, not raised."""
        self.queue.append((_accept_batch, (self._consumer, batch), 0, ACCEPT))
        self.schedule()

    def settle_all(self, lease: Lease, kind: int) -> None:
        self.queue.append((_decide_all, lease, 0, kind))
        self.schedule()

    def settle_spans(self, lease: Lease, spans: Sequence[tuple[int, int]], kind: int) -> None:
        self.queue.append((_decide_spans, (lease, spans), 0, kind))
        self.schedule()

    def begin(self, first: ShareRecord) -> Passage:
        """A loop has reached this record, and accepts records from here on."""
        self.end()
        self.progress = Passage(first, self._consumer)
        return self.progress

    def end(self) -> None:
        """The loop has ended. Decisions from now on are applied after its acceptances."""
        progress, self.progress = self.progress, None
        if progress is not None:
            progress.is_over = True
            self._accept_passed(progress)

    def come_back(self, progress: Passage) -> None:
        """A loop asks for the next record: the one that the user had is finished."""
        progress.come_back()
        if progress.is_over:
            self._accept_passed(progress)

    def _accept_passed(self, progress: Passage) -> None:
        self.queue.append((_accept, progress, progress.passed, ACCEPT))
        self.schedule()

    def on_run(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Called in the loop."""
        progress = self.progress
        # Explicit decisions first: the user made them before the loop passed the record.
        passed = progress.passed if progress else 0
        for _ in range(len(self.queue)):
            decide, subject, offset, kind = self.queue.popleft()
            decide(subject, offset, kind)
        if progress:
            progress.accept(passed)

    def close(self) -> None:
        """Called in the event loop. Later decisions have no effect, because all leases end."""
        self._is_closed = True
        self.clear()

    def schedule(self) -> None:
        """Schedule a call of `clear`, if a thread runs the loop and none is scheduled. Each run begins with one."""
        if self._loop.runner and not self.is_scheduled and not self._is_closed:
            self.is_scheduled = True
            with suppress(LoopClosed):
                self._loop.call_soon(self._check)

    def _check(self) -> None:
        """Repeat until no decisions arrive. The flag is cleared before the last check, so that none is missed."""
        self.clear()
        self._loop.call_later(_GATHER_S, self._check_again)

    def _check_again(self) -> None:
        if not self._has_pending:
            self.is_scheduled = False
            if not self._has_pending:
                return
            self.is_scheduled = True
        self._check()

    @property
    def _has_pending(self) -> bool:
        progress = self.progress
        return bool(self.queue) or (progress is not None and progress.is_behind)
