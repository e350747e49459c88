"""Wakes waiting requests when something has changed, so that long polls don't poll.

A notifier has no value and no memory. One function does all waiting, so that no long poll can forget its deadline or
outlive its connection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import anyio
import anyio.lowlevel

from kshare.broker.clock import Clock


class Notifier:
    """Calls all listeners, once per `fire`."""

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: dict[Callable[[], None], None] = {}

    def listen(self, call: Callable[[], None]) -> None:
        self._listeners[call] = None

    def forget(self, call: Callable[[], None]) -> None:
        self._listeners.pop(call, None)

    def fire(self) -> None:
        for call in tuple(self._listeners):
            call()


class WakeOne(Notifier):
    """A notifier for something that only one listener can use. It calls the one that has waited longest.

    A listener that was called, or that stops listening for another reason, uses what it can, and then calls `wake_next`
    if something is left. So a hundred long polls on one partition cost as much as one. Each listener is called at most
    once per `fire`.
    """

    __slots__ = ("_called", "_next")

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[Callable[[], None], None] = {}
        self._called: set[Callable[[], None]] = set()

    @property
    def is_awaited(self) -> bool:
        return bool(self._listeners)

    @property
    def is_promised(self) -> bool:
        """Whether a listener was called that hasn't used yet what it was called for."""
        return bool(self._called)

    def forget(self, call: Callable[[], None]) -> None:
        self._called.discard(call)
        super().forget(call)

    def fire(self) -> None:
        self._next = dict(self._listeners)
        self.wake_next()

    def wake_next(self) -> None:
        while self._next:
            call = next(iter(self._next))
            del self._next[call]
            if call in self._listeners:
                self._called.add(call)
                call()
                return

    def fire_all(self) -> None:
        """Call all listeners."""
        super().fire()


async def let_others_first(notifiers: Sequence[WakeOne]) -> bool:
    """Wait until all listeners that were called have run, for a newcomer. Returns whether there were any."""
    has_waited = False
    while any(notifier.is_promised for notifier in notifiers):
        has_waited = True
        await anyio.lowlevel.checkpoint()
    return has_waited


async def wait_for_any(
    notifiers: Iterable[Notifier], clock: Clock, until: int, real_until: float = math.inf
) -> bool:
    """Wait until one of the notifiers fires (True) or the time is `until` (False).

    `real_until` is a time of the event loop, which also ends it.

    It listens before it first yields to other tasks, so a caller that has just checked its condition misses no change.
    After a notifier has fired, it yields once more: other tasks that are ready make their changes first, and the caller
    finds all of them at once.
    """
    if clock.now() >= until:
        return False
    fired = anyio.Event()
    wake = fired.set
    awaited = tuple(notifiers)
    timer = clock.at(until, wake)
    for notifier in awaited:
        notifier.listen(wake)
    try:
        if real_until == math.inf:
            await fired.wait()
        else:
            with anyio.CancelScope(deadline=real_until):
                await fired.wait()
        await anyio.lowlevel.checkpoint()
    finally:
        timer.cancel()
        for notifier in awaited:
            notifier.forget(wake)
    return fired.is_set() and clock.now() < until
