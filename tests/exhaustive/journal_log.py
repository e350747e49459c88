"""Where a journal is kept, in memory: as a topic keeps it, whose leader fences an older writer's appends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kshare.spark.journal.store import JournalFenced


class Written(NamedTuple):
    number: int
    data: bytes


class JournalLog:
    """Survives all processes."""

    def __init__(self) -> None:
        self.frames: list[Written] = []
        self.claims = 0
        self.fenced_below = 0
        """Writers with a lower number can no longer append."""
        self._end = 0

    def claim(self) -> int:
        self.claims += 1
        return self.claims

    def append(self, writer: int, data: bytes) -> int | None:
        """None if the writer is fenced."""
        if writer < self.fenced_below:
            return None
        self.fenced_below = writer
        self.frames.append(Written(self._end, data))
        self._end += 1
        return self._end - 1

    def trim(self, before: int) -> None:
        self.frames = [frame for frame in self.frames if frame.number >= before]


class LoggedStore:
    """A `JournalStore` of one process. `wait` returns when an event lets a step happen."""

    place = "topic journal"

    def __init__(
        self,
        log: JournalLog,
        wait: Callable[[str], Awaitable[int | None]],
        is_late: Callable[[], bool],
    ) -> None:
        """`is_late`: whether something of another writer is on its way."""
        self._log = log
        self._is_late = is_late
        self._wait = wait
        self.writer = 0
        self.appending: bytes | None = None
        """What is on its way to the log."""

    async def read(self, after: int = -1) -> list[tuple[int, bytes | None]]:
        return [(frame.number, frame.data) for frame in self._log.frames if frame.number > after]

    async def claim(self) -> None:
        if self._is_late():
            await self._wait("claim")
        self.writer = self._log.claim()

    async def append(self, data: bytes, expected: int) -> int:
        self.appending = data
        number = await self._wait("append")
        if number is None:
            raise JournalFenced("another writer has claimed it")
        return number

    async def trim(self, before: int) -> None:
        self._log.trim(before)
