"""The broker's clock and timers. Times are milliseconds since 1970.

Timers that are due fire in the order of their times, then of their creation. Never waits, except in the task that runs
`SystemClock.run`. Tests use a `ManualClock`, whose time changes only when they advance it.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import anyio

from kshare.errors import ConfigError
from kshare.surroundings import surroundings


class Timer:
    """A call scheduled for a time. It can be cancelled before."""

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
    """The time, and timers."""

    stands_still = False
    """Whether time passes only when a test says so."""

    def __init__(self) -> None:
        self._due: list[Timer] = []
        self._made = 0

    @abstractmethod
    def now(self) -> int:
        """Milliseconds since 1970. Never decreases."""

    def at(self, when: int, call: Callable[[], None]) -> Timer:
        """Schedule a call at this time. It is never made before `at` returns, even if the time has passed."""
        self._made += 1
        timer = Timer(when, self._made, call)
        heapq.heappush(self._due, timer)
        return timer

    def after(self, delay: int, call: Callable[[], None]) -> Timer:
        return self.at(self.now() + delay, call)

    def next_due(self) -> int | None:
        """The time of the next timer, or None."""
        while self._due and not self._due[0].is_pending:
            heapq.heappop(self._due)
        return self._due[0].when if self._due else None

    def fire_due(self) -> None:
        """Fire all timers that are due, except those that are added meanwhile."""
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
    """Real time, counted by the monotonic clock since the creation: changes of the system time don't affect it."""

    def __init__(self) -> None:
        super().__init__()
        self._monotonic = surroundings.get().monotonic
        self._began = surroundings.get().wall_time() - self._monotonic()
        self._earlier: anyio.Event | None = None

    def now(self) -> int:
        return int((self._began + self._monotonic()) * 1000)

    def at(self, when: int, call: Callable[[], None]) -> Timer:
        first = self.next_due()
        timer = super().at(when, call)
        if self._earlier is not None and (first is None or when < first):
            self._earlier.set()
        return timer

    async def run(self) -> None:
        """Fire timers when they are due, until cancelled."""
        while True:
            self.fire_due()
            self._earlier = anyio.Event()
            due = self.next_due()
            seconds = math.inf if due is None else max(0.0, due / 1000 - (self._began + self._monotonic()))
            with anyio.move_on_after(seconds):
                await self._earlier.wait()


class JumpingClock(SystemClock):
    """Real time, which a test can set forward besides."""

    def jump(self, milliseconds: int) -> None:
        """Set the time forward. Timers that are due then fire soon afterwards, in the task that runs `run`."""
        self._began += milliseconds / 1000
        if self._earlier is not None:
            self._earlier.set()


class ManualClock(Clock):
    """A clock for tests: time passes only when `advance` is called. Times are milliseconds, as in Kafka's settings."""

    stands_still = True

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        super().__init__()
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, milliseconds: int) -> None:
        """Advance the time by so many milliseconds. Timers in between, such as those of locks, fire at their time.

        Timers change the broker's state. So if a broker runs, call this in its thread:
        `broker.call(lambda: clock.advance(1000))`.
        """
        if type(milliseconds) is not int or milliseconds < 0:
            raise ConfigError(f"milliseconds must be a whole number, 0 or more, not {milliseconds!r}")
        end = self._now + milliseconds
        while (due := self.next_due()) is not None and due <= end:
            self._now = max(self._now, due)
            self.fire_due()
        self._now = end
