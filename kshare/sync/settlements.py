"""Single decisions of the user's threads: written into the lease at once, or queued for the event loop.

Compiled through `settlements.pxd`: then no other thread can run while `settle` does, so while no thread runs the loop
`settle` may do what is the loop's alone otherwise. To queue each decision took as long as to read the record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kshare.state.lease import Lease

Decide = Callable[[Any, int, int], object]


class Settlements:
    """`queue`: each is a function, what it is called on, an offset and a type, in the order they came."""

    def __init__(self) -> None:
        self.queue: deque[tuple[Decide, Any, int, int]] = deque()
        self.is_loop_free = False
        """No thread runs the event loop, and nothing is queued; never where this isn't compiled."""
        self.is_scheduled = False
        """The loop, which is being run, looks soon."""

    def settle(self, lease: Lease, offset: int, kind: int) -> bool:
        """False when it is too late. What comes too late only now, on the way to the loop, is as good as expired."""
        if self.is_loop_free and lease.decide_quietly(offset, kind):
            return True
        if not lease.can_decide(offset):
            return False
        self.queue_decision(lease, offset, kind)
        return True

    def queue_decision(self, lease: Lease, offset: int, kind: int) -> None:
        """For the loop, which may be running."""
        raise NotImplementedError

    def on_taken(self) -> None:
        """A thread is about to run the loop."""
        self.is_loop_free = False

    def on_free(self) -> None:
        self.is_loop_free = _IS_COMPILED and not self.queue


_IS_COMPILED = not isinstance(Settlements.__init__, FunctionType)
