"""Log lines about a broker that can't be reached, at a limited rate.

The first failure is raised where the connection was requested. While a background task keeps trying, only the log shows
why no records arrive.
"""

from __future__ import annotations

AFTER_S = 3.0
"""How long a broker must be unreachable before a line is logged: a restart takes less."""
LOG_INTERVAL_S = 30.0
"""The minimum time between two lines about one broker."""


class Outage:
    """The failures of one address. Callers pass the current time."""

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
            f"after {self._failures} attempts: {problem}; trying again"
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
