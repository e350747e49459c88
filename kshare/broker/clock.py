"""The broker's clock: milliseconds since 1970, for timestamps and deadlines, and timers.

Decides the order in which what is due is called: by time, then by age. Never waits: `SystemClock.run` does, in a task.
Tests take a `ManualClock`, whose time stands still until they turn it.
"""

from __future__ import annotations

import heapq
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import anyio


class Timer:
    """Something to be called at a time, unless it is cancelled before."""

    __slots__ = ("_call", "_number", "when")

    def __init__(self, when: int, number: int, call: Callable[[], None]) -> None:
        self.when = when
        self._number = number
        self._call: Callable[[], None] | None = call

    @property
    def is_pending(self) -> bool:
        return self._call is not None

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self._number) < (other.when, other._number)


class Clock(ABC):
    """What the broker sees of time."""

    def __init__(self) -> None:
        self._due: list[Timer] = []
        self._made = 0

    @abstractmethod
    def now(self) -> int:
        """Milliseconds since 1970; never runs backwards."""

    def at(self, when: int, call: Callable[[], None]) -> Timer:
        """Has `call` called at that time, outside of the caller, even if it has passed already."""
        self._made += 1
        timer = Timer(when, self._made, call)
        heapq.heappush(self._due, timer)
        return timer

    def after(self, delay: int, call: Callable[[], None]) -> Timer:
        return self.at(self.now() + delay, call)

    def next_due(self) -> int | None:
        """When the next timer fires, if any waits."""
        while self._due and not self._due[0].is_pending:
            heapq.heappop(self._due)
        return self._due[0].when if self._due else None

    def fire_due(self) -> None:
        """Calls what is due by now, and not what these calls add for right now."""
        now, last = self.now(), self._made
        later = []
        while self._due and self._due[0].when <= now:
            timer = heapq.heappop(self._due)
            if timer._number > last:
                later.append(timer)
            else:
                timer.fire()
        for timer in later:
            heapq.heappush(self._due, timer)


class SystemClock(Clock):
    """Real time. Counts on from when it was made, so a change of the machine's clock doesn't disturb it."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.time() - time.monotonic()
        self._earlier: anyio.Event | None = None

    def now(self) -> int:
        return int((self._began + time.monotonic()) * 1000)

    def at(self, when: int, call: Callable[[], None]) -> Timer:
        first = self.next_due()
        timer = super().at(when, call)
        if self._earlier is not None and (first is None or when < first):
            self._earlier.set()
        return timer

    async def run(self) -> None:
        """Calls what is due, when it is due; runs until it is cancelled."""
        while True:
            self.fire_due()
            self._earlier = anyio.Event()
            due = self.next_due()
            seconds = math.inf if due is None else max(0.0, due / 1000 - (self._began + time.monotonic()))
            with anyio.move_on_after(seconds):
                await self._earlier.wait()


class ManualClock(Clock):
    """A clock for tests: time passes only when `advance` is called."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        super().__init__()
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, milliseconds: int) -> None:
        """Advance the time. Whatever becomes due meanwhile, such as lock time-outs, happens at its time."""
        end = self._now + milliseconds
        while (due := self.next_due()) is not None and due <= end:
            self._now = max(self._now, due)
            self.fire_due()
        self._now = end
