"""Reads the topic in which workers announce themselves: once what is recent, and then what was added since.

Plain fetches are enough. Whoever may read the topic sees all workers, and no group has to exist.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import anyio

from kshare.admin.log_offsets import LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.reading_budget import counting_budget
from kshare.admin.routing import Router
from kshare.errors import BrokerError, CorruptBatchError, KshareError
from kshare.fleet.announcements import REMEMBERED_S, Announced, Announcements
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.records import Batch

log = logging.getLogger("kshare.fleet")

_LIMIT_S = 10.0
_GONE = {
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""The topic was deleted, or what comes next was."""


class AnnouncementLog:
    """`wall_clock` is the time of day, in seconds since 1970."""

    def __init__(self, router: Router, topic: str, wall_clock: Callable[[], float] = time.time) -> None:
        self.topic = topic
        self._router = router
        self._wall_clock = wall_clock
        self._reader = LogReader(router)
        self._announcements = Announcements()
        self._topic_id = b""
        self._next: int | None = None
        """The offset to go on with."""
        self._reading = anyio.Lock()

    def known(self) -> list[Announced]:
        return self._announcements.known(self._wall_clock())

    @property
    def unreadable(self) -> str:
        """Says how many records aren't announcements, and why; empty if all are."""
        count = self._announcements.unreadable
        what = f"{count:,} records aren't announcements" if count > 1 else "1 record isn't an announcement"
        return f"topic {self.topic}: {what} of workers: {self._announcements.reason}" if count else ""

    async def refresh(self) -> None:
        """Read what is new. Raises KshareError, and keeps what is known."""
        with anyio.move_on_after(_LIMIT_S):
            async with self._reading:
                try:
                    await self._read()
                except BrokerError as error:
                    if error.code in _GONE:
                        self._next, self._announcements = None, Announcements()
                    raise
                return
        raise KshareError(
            f"reading topic {self.topic} took longer than {_LIMIT_S:g} s: the rest is read later"
        )

    async def _read(self) -> None:
        end = await self._offset(LATEST)
        at = self._next
        if at is None or at > end:
            at = await self._start(end)
        while at < end:
            fetched = await self._reader.fetch((self._topic_id, 0), at)
            before = at
            for batch, is_for_users in fetched.batches(counting_budget()):
                at = max(at, batch.last_offset + 1)
                if is_for_users:
                    self._take(batch)
            if at == before:  # nothing is left of what was there, after compaction
                at = end
            self._next = at

    async def _start(self, end: int) -> int:
        """Forget everything. Returns the offset of the first recent record, or `end`.

        `end` was read before: what is written in between must not be passed over.
        """
        self._announcements = Announcements()
        self._topic_id = (await self._router.metadata([self.topic])).topics[0].topic_id
        first = await self._offset(round((self._wall_clock() - REMEMBERED_S) * 1000))
        self._next = first if first >= 0 else end
        return self._next

    async def _offset(self, time_: int) -> int:
        where = (self.topic, 0)
        return (await log_offsets(self._router, [where], time_))[where]

    def _take(self, batch: Batch) -> None:
        now = self._wall_clock()
        try:
            for record in batch:
                self._announcements.take(record.key, record.value, record.timestamp / 1000, now)
        except CorruptBatchError as problem:
            log.warning("topic %s: a batch can't be read: %s", self.topic, problem)
