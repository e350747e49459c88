"""A store in memory: for tests, and for redeliveries within one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kshare.errors import ConfigError, StoreFailed
from kshare.idempotency.answers import ClaimAnswer, ClaimState
from kshare.idempotency.entry import Entry, may_abandon, may_finish, on_claim


class MemoryStore:
    """Keeps up to `max_entries`; if there are more, it forgets the oldest results, but never a claim.

    May be used from any thread. Its contents end with the process.
    """

    def __init__(self, max_entries: int = 100_000, *, clock: Callable[[], float] = time.monotonic) -> None:
        if type(max_entries) is not int or max_entries < 1:
            raise ConfigError(f"max_entries must be a whole number, at least 1, not {max_entries!r:.80}")
        self._max_entries = max_entries
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}
        """In the order in which they were claimed or finished."""

    async def claim(self, key: str, owner: str, seconds: float) -> ClaimAnswer:
        with self._lock:
            now = self._clock()
            answer = on_claim(self._entries.get(key), owner, now)
            if answer.state is ClaimState.CLAIMED:
                self._put(key, Entry(owner, now + seconds), now)
            return answer

    async def finish(self, key: str, owner: str, result: bytes, seconds: float) -> bool:
        with self._lock:
            now = self._clock()
            if not may_finish(self._entries.get(key), owner, now):
                return False
            self._put(key, Entry(owner, now + seconds, result), now)
            return True

    async def abandon(self, key: str, owner: str) -> None:
        with self._lock:
            if may_abandon(self._entries.get(key), owner):
                del self._entries[key]

    async def purge(self) -> int:
        with self._lock:
            return self._purge(self._clock())

    def __len__(self) -> int:
        return len(self._entries)

    def _put(self, key: str, entry: Entry, now: float) -> None:
        if key not in self._entries and len(self._entries) >= self._max_entries:
            self._make_room(now)
        self._entries.pop(key, None)
        self._entries[key] = entry

    def _make_room(self, now: float) -> None:
        if self._purge(now):
            return
        oldest = next((key for key, entry in self._entries.items() if entry.is_done), None)
        if oldest is None:
            raise StoreFailed(
                f"MemoryStore: all {self._max_entries} entries are calls in progress, and none may be forgotten. "
                "Raise max_entries, or run fewer calls at once."
            )
        del self._entries[oldest]

    def _purge(self, now: float) -> int:
        expired = [key for key, entry in self._entries.items() if entry.expires <= now]
        for key in expired:
            del self._entries[key]
        return len(expired)
