"""Failed attempts to reach an address: when to try again, and when a line of the log says so.

The first failure is raised where the connection was requested. While a background task keeps trying, only the log shows
why no records arrive.
"""

from __future__ import annotations

from random import Random

JITTER = 0.2
AFTER_S = 3.0
"""How long a broker must be unreachable before a line is logged: a restart takes less."""
LOG_INTERVAL_S = 30.0
"""The minimum time between two lines about one broker."""


class Backoff:
    """Exponential backoff with a limit and jitter. Callers pass the current time."""

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


class Outage:
    """The failures of one address, for the log. Callers pass the current time."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._failures = 0
        self._since = 0.0
        self._logged_at: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether the last attempt failed."""
        return self._failures > 0

    def on_failure(self, problem: str, now: float) -> str | None:
        """Returns a log line if one is due."""
        if not self._failures:
            self._since = now
        self._failures += 1
        last = self._logged_at
        if now - self._since < AFTER_S or (last is not None and now - last < LOG_INTERVAL_S):
            return None
        self._logged_at = now
        return (
            f"{self._peer} has been unreachable for {now - self._since:.0f} s, "
            f"after {self._failures} attempts: {problem}; retrying"
        )

    def on_success(self, now: float) -> str | None:
        """Returns a log line if the outage was logged."""
        failures, logged_at = self._failures, self._logged_at
        self._failures, self._logged_at = 0, None
        if logged_at is None:
            return None
        return (
            f"{self._peer} is reachable again after {now - self._since:.0f} s and {failures} failed attempts"
        )
