"""Single decisions of the user's threads: written into the lease at once, or queued for the event loop.

Compiled through `settlements.pxd`: then no other thread can run during `settle`, so it may write to a lease while no
thread runs the loop. Queueing each decision took as long as reading the record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kshare.client.record import ShareBatch
from kshare.state.lease import ACCEPT, LOST, Lease

Decide = Callable[[Any, int, int], object]


_decide: Decide = vars(Lease)["decide"]
"""The method, as Python sees it: compiled, `Lease.decide` would be a C function, which no queue can hold."""
_lost = LOST
"""Again, as a C variable: see the .pxd."""


class Settlements:
    """`queue` has a function, its first argument, an offset and a type for each decision, in order.

    `schedule` is called when a decision was queued, unless the event loop is to apply it soon anyway.
    """

    def __init__(self, schedule: Callable[[], None], accept_if_held: Decide) -> None:
        """`accept_if_held` is called in the event loop for a queued `accept`."""
        self._schedule = schedule
        self._accept_if_held = accept_if_held
        self.queue: deque[tuple[Decide, Any, int, int]] = deque()
        self.is_loop_free = False
        """No thread runs the event loop, and nothing is queued. Always False if this module isn't compiled."""
        self.is_scheduled = False
        """The running loop will call `clear` soon."""

    def settle(self, lease: Lease, offset: int, kind: int) -> bool:
        """Returns False if it is too late. A queued decision that is too late when it is applied counts as expired."""
        if self.is_loop_free and lease.decide_quietly(offset, kind):
            return True
        if not lease.can_decide(offset):
            return False
        self.queue.append((_decide, lease, offset, kind))
        self.is_loop_free = False
        if not self.is_scheduled:
            self._schedule()
        return True

    def accept(self, batch: ShareBatch, offset: int) -> None:
        """A loop has finished this record. A decision of the user's is kept. If the lock is lost, that is reported."""
        lease = batch._lease
        if self.is_loop_free:
            if lease.accept_quietly(offset):
                return
            if not lease.is_held(offset) and lease.states[offset - lease.first] != _lost:
                return
        self.queue.append((self._accept_if_held, batch, offset, ACCEPT))
        self.is_loop_free = False
        if not self.is_scheduled:
            self._schedule()

    def on_taken(self) -> None:
        """A thread is about to run the loop."""
        self.is_loop_free = False

    def on_free(self) -> None:
        self.is_loop_free = _IS_COMPILED and not self.queue


_IS_COMPILED = not isinstance(Settlements.__init__, FunctionType)
