"""A store in memory: for tests, and for redeliveries within one process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from kshare.errors import ConfigError, StoreFailed
from kshare.idempotency.entry import Entry, may_abandon, may_finish, on_claim
from kshare.idempotency.store import ClaimResponse, ClaimState


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
        # No call may look at all entries, and the first key of a plain dict is found slowly after many removals.
        self._entries: dict[str, Entry] = {}
        self._done: OrderedDict[str, None] = OrderedDict()
        """The keys of results, in the order in which they were finished."""
        self._expiring: dict[float, OrderedDict[str, None]] = {}
        """For how long entries are kept → their keys, in the order in which they expire."""
        self._kept_for: dict[str, float] = {}

    async def claim(self, key: str, owner: str, seconds: float) -> ClaimResponse:
        with self._lock:
            now = self._clock()
            response = on_claim(self._entries.get(key), owner, now)
            if response.state is ClaimState.CLAIMED:
                self._put(key, Entry(owner, now + seconds), seconds, now)
            return response

    async def finish(self, key: str, owner: str, result: bytes, seconds: float) -> bool:
        with self._lock:
            now = self._clock()
            if not may_finish(self._entries.get(key), owner, now):
                return False
            self._put(key, Entry(owner, now + seconds, result), seconds, now)
            return True

    async def abandon(self, key: str, owner: str) -> None:
        with self._lock:
            if may_abandon(self._entries.get(key), owner):
                self._remove(key)

    async def purge(self) -> int:
        with self._lock:
            return self._purge(self._clock())

    def __len__(self) -> int:
        return len(self._entries)

    def _put(self, key: str, entry: Entry, seconds: float, now: float) -> None:
        if key in self._entries:
            self._remove(key)
        elif len(self._entries) >= self._max_entries:
            self._make_room(now)
        self._entries[key] = entry
        self._kept_for[key] = seconds
        self._expiring.setdefault(seconds, OrderedDict())[key] = None
        if entry.is_done:
            self._done[key] = None

    def _remove(self, key: str) -> None:
        del self._entries[key]
        self._done.pop(key, None)
        seconds = self._kept_for.pop(key)
        keys = self._expiring[seconds]
        del keys[key]
        if not keys:
            del self._expiring[seconds]

    def _make_room(self, now: float) -> None:
        if self._purge(now):
            return
        oldest = next(iter(self._done), None)
        if oldest is None:
            raise StoreFailed(
                f"MemoryStore: all {self._max_entries} entries are calls in progress, and none may be forgotten. "
                "Raise max_entries, or run fewer calls at once."
            )
        self._remove(oldest)

    def _purge(self, now: float) -> int:
        before = len(self._entries)
        for keys in [*self._expiring.values()]:
            while keys and self._entries[first := next(iter(keys))].expires <= now:
                self._remove(first)
        return before - len(self._entries)
