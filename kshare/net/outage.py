"""While a broker can't be reached: what to say of it in the log, and how often.

The first failure is told to whoever wanted the connection. When somebody goes on trying in the background, nobody would
know why nothing comes without a line in the log.
"""

from __future__ import annotations

AFTER_S = 3.0
"""How long a broker may be gone before a line is written: those that are restarted come back sooner."""
EVERY_S = 30.0
"""The least time between two lines about one broker."""


class Outage:
    """Of one address. Holds numbers only: whoever uses it has the clock."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._failures = 0
        self._since = 0.0
        self._told_at: float | None = None

    @property
    def is_on(self) -> bool:
        """The last try failed."""
        return self._failures > 0

    def on_failure(self, problem: str, now: float) -> str | None:
        """A line for the log, if it is time for one."""
        if not self._failures:
            self._since = now
        self._failures += 1
        last = self._told_at
        if now - self._since < AFTER_S or (last is not None and now - last < EVERY_S):
            return None
        self._told_at = now
        return (
            f"{self._peer} has been out of reach for {now - self._since:.0f} s, "
            f"after {self._failures} attempts: {problem}; trying again"
        )

    def on_success(self, now: float) -> str | None:
        """A line for the log, if there was one about the outage."""
        failures, told_at = self._failures, self._told_at
        self._failures, self._told_at = 0, None
        if told_at is None:
            return None
        return f"{self._peer} can be reached again after {now - self._since:.0f} s and {failures} failed attempts"


def about(seconds: float) -> str:
    """What was left of a time limit when it was looked at, a few milliseconds after the limit was set."""
    return f"{max(0.0, round(seconds + 0.04, 1)):g}"
