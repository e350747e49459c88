"""Exponential backoff with a limit and jitter."""

from __future__ import annotations

from random import Random

JITTER = 0.2


class Backoff:
    """The backoff of one address. Callers pass the current time."""

    def __init__(self, shortest: float, longest: float, random: Random) -> None:
        self._shortest = shortest
        self._longest = longest
        self._random = random
        self.failures = 0
        """The number of consecutive failures."""
        self.until = 0.0
        """When to try again, on the event loop's clock."""

    def on_failure(self, now: float) -> None:
        pause = min(self._longest, self._shortest * 2.0 ** min(self.failures, 32))
        self.failures += 1
        self.until = now + min(self._longest, pause * self._random.uniform(1 - JITTER, 1 + JITTER))

    def on_success(self) -> None:
        self.failures = 0
        self.until = 0.0
