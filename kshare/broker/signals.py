"""Signals: something changed, whoever waits may look again. How long polls wake without polling.

A signal carries nothing and remembers nothing. Waiting is one function, so that no long poll can forget its deadline
or outlive its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio

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


async def wait_for_any(signals: Iterable[Signal], clock: Clock, until: int) -> bool:
    """Waits until one of the signals fires (True) or the clock shows `until` (False).

    It listens before it first gives way to other tasks: what is checked right before the call can't be missed.
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
    finally:
        timer.cancel()
        for signal in heard:
            signal.forget(wake)
    return clock.now() < until
