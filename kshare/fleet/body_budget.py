"""How many bytes of status pages are kept at a time. Pure.

Each process has a share that others can't take away. The rest is for those that need more, in the order of their
responses. Untrusted processes may say much, and there may be many.
"""

from __future__ import annotations

_SHARES, _COMMON = 16 << 20, 16 << 20


class BodyBudget:
    def __init__(self, count: int) -> None:
        """For so many processes."""
        self._share = _SHARES // max(1, count)
        self._common = _COMMON

    def take(self, size: int) -> bool:
        """Whether the body of another process may be kept."""
        more = max(0, size - self._share)
        if more > self._common:
            return False
        self._common -= more
        return True
