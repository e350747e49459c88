"""Decisions of the user's threads, until the event loop applies them to the leases.

While no thread runs the event loop, decisions are applied at once. Otherwise they are queued for it, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kshare.client.consumer import AsyncConsumer, source_of
from kshare.client.record import ShareBatch, decide_held, lease_of, lost_spans_of, spans_of
from kshare.state.lease import ACCEPT, Lease
from kshare.sync.settlements import Decide, Settlements
from kshare.sync.shared_loop import LoopClosed, SharedLoop

_GATHER_S = 0.003


_decide_if_held: Decide = Lease.decide_if_held


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
        super().__init__(self.schedule, self._accept_record)
        self._consumer = consumer
        self._is_closed = False
        self.loop = SharedLoop(self)

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

    def _accept_record(self, batch: ShareBatch, offset: int, kind: int) -> None:
        """Called in the loop."""
        if not lease_of(batch).decide_if_held(offset, kind):
            lost = lost_spans_of(batch, offset, offset)
            if lost:
                source_of(self._consumer).on_lock_lost(batch, lost)

    def on_run(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Called in the loop."""
        for _ in range(len(self.queue)):
            decide, subject, offset, kind = self.queue.popleft()
            decide(subject, offset, kind)

    def close(self) -> None:
        """Called in the event loop. Later decisions have no effect, because all leases end."""
        self._is_closed = True
        self.clear()

    def schedule(self) -> None:
        """Schedule a call of `clear`, if a thread runs the loop and none is scheduled. Each run begins with one."""
        if self.loop.runner and not self.is_scheduled and not self._is_closed:
            self.is_scheduled = True
            with suppress(LoopClosed):
                self.loop.call_soon(self._check)

    def _check(self) -> None:
        """Repeat until no decisions arrive. The flag is cleared before the last check, so that none is missed."""
        self.clear()
        self.loop.call_later(_GATHER_S, self._check_again)

    def _check_again(self) -> None:
        if not self.queue:
            self.is_scheduled = False
            if not self.queue:
                return
            self.is_scheduled = True
        self._check()
