"""Counters that only increase: incremented where things happen, read by `metrics`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Durations:
    """How often something was done, and how many seconds it took."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.longest = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Count and measure the block, even if it fails."""
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self.count += 1
            self.total += seconds
            self.longest = max(self.longest, seconds)


class Counters:
    """All counters of a cluster."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """By API and node."""
        self.refusals: Counter[tuple[str, int]] = Counter()
        """Requests that failed as a whole, by API and node."""
        self.acknowledged: Counter[tuple[str, str]] = Counter()
        """Records, by group and acknowledgement type: accept, release, reject, renew, gap."""
        self.acquired: Counter[str] = Counter()
        """Records, by group. Redelivered records are counted again."""
        self.lock_timeouts: Counter[str] = Counter()
        """Records whose lock expired, by group."""
        self.sessions_ended: Counter[str] = Counter()
        """Records released because their session ended, by group."""
        self.dead_letters: Counter[str] = Counter()
        """Records archived without being accepted, by group, even if the group has no dead-letter topic."""
        self.evictions: Counter[int] = Counter()
        """Share sessions that ended with their connection, by node."""
        self.fetches_expired: Counter[str] = Counter()
        """Fetches that reached their maximum wait time, by group."""
        self.state_writes = Durations()
        """Writes of share-partition states by the share coordinator."""
        self.state_loads = Durations()
        """Loads of partitions of the state topic by the share coordinator."""
        self.partition_loads = Durations()
        """Loads of share-partitions by their leaders."""
