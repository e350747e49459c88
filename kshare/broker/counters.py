"""What only ever grows: counted where it happens, read by `metrics`."""

from __future__ import annotations

from collections import Counter


class Counters:
    """All counters of a cluster."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """By API and node."""
        self.acknowledged: Counter[tuple[str, str]] = Counter()
        """Records, by group and what was said of them: accept, release, reject, renew, gap."""
        self.acquired: Counter[str] = Counter()
        """Records, by group; one that is delivered again counts again."""
        self.lock_timeouts: Counter[str] = Counter()
        """Records whose lock ran out, by group."""
        self.sessions_ended: Counter[str] = Counter()
        """Records given back because the session that held them ended, by group."""
        self.dead_letters: Counter[str] = Counter()
        """Records archived without being accepted, by group, whether or not the group keeps dead letters."""
