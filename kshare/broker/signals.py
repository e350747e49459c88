"""Signals that wake waiting requests when something has changed: long polls don't poll.

A signal carries nothing and remembers nothing. Waiting is one function, so that no long poll can forget its deadline
or outlive its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio
import anyio.lowlevel

from kshare.broker.clock import Clock


class Signal:
    """Calls everyone who listens, once per `fire`."""

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


class WakeOne(Signal):
    """A signal for something that only one listener can use: it calls the one that has waited longest.

    The listener that was called, or that stops listening for another reason, takes what it can use, and then calls
    `wake_next` if something is left. So a hundred long polls on one partition cost as much as one. Each listener is
    called at most once per `fire`.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[Callable[[], None], None] = {}

    @property
    def is_awaited(self) -> bool:
        return bool(self._listeners)

    def fire(self) -> None:
        self._next = dict(self._listeners)
        self.wake_next()

    def wake_next(self) -> None:
        while self._next:
            call = next(iter(self._next))
            del self._next[call]
            if call in self._listeners:
                call()
                return

    def fire_all(self) -> None:
        """For what concerns everybody."""
        super().fire()


async def wait_for_any(signals: Iterable[Signal], clock: Clock, until: int) -> bool:
    """Waits until one of the signals fires (True) or the clock shows `until` (False).

    It listens before it first gives way to other tasks: what is checked right before the call can't be missed. When a
    signal has fired it gives way once more: whoever changes something at the same moment does so first, and the caller
    finds all of it at one look.
    """
    if clock.now() >= until:
        return False
    fired = anyio.Event()
    wake = fired.set
    heard = tuple(signals)
    timer = clock.at(until, wake)
    for signal in heard:
        signal.listen(wake)
    try:
        await fired.wait()
        await anyio.lowlevel.checkpoint()
    finally:
        timer.cancel()
        for signal in heard:
            signal.forget(wake)
    return clock.now() < until
