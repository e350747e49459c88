"""`rate_limit`: at most so many records in so many seconds, in bursts of up to one second's worth. Pure."""

from __future__ import annotations

from kshare.options.checks import require_number

_SHORTEST_WAIT_S = 0.001
"""Times are rounded. Without this, waits could become too short to change them."""


def check_rate(per_second: object) -> None:
    """Raises ConfigError."""
    if per_second is not None:
        require_number("rate_limit", per_second, 0.001, 1_000_000)


class TokenBucket:
    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._size = max(1.0, per_second)
        self._tokens = 1.0
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Take one token, if there is one."""
        self._tokens = self._tokens_at(now)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def has_token(self, now: float) -> bool:
        return self._tokens_at(now) >= 1

    def _tokens_at(self, now: float) -> float:
        if self._at is None:
            return self._tokens
        return min(self._size, self._tokens + (now - self._at) * self._per_second)

    def give_back(self) -> None:
        """There was no use for the last token."""
        self._tokens += 1

    @property
    def wait_s(self) -> float:
        """Seconds from the last `take`, which returned False, until there is a token."""
        return max(_SHORTEST_WAIT_S, (1 - self._tokens) / self._per_second)
