"""Announces a worker process in a topic, at an interval, and its end. Whatever fails, its work isn't disturbed.

A process that exits cleanly writes a tombstone. One that was killed doesn't, and its announcements stop. The topic is
compacted, so it keeps the last record of each process. Because running processes repeat theirs, it keeps no record
longer than `_KEPT_S`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from kshare.admin.routing import Router
from kshare.admin.topics import ensure_topic
from kshare.errors import BrokerError, KshareError
from kshare.producer.records import NewRecord
from kshare.producer.writer import RecordWriter
from kshare.protocol.error_codes import ErrorCode
from kshare.surroundings import wall_time
from kshare.worker.watch.announcement import Announcement, announcement_value

log = logging.getLogger("kshare.worker")

ANNOUNCED_EVERY_S = 60.0
_FIRST_RETRY_S = 2.0
"""How long after a failure it is tried again. Then twice as long each time."""
_WRITE_S = 10.0
"""How long announcing may take."""
_TOMBSTONE_S = 2.0
"""How long the worker's end may be delayed by that."""
_KEPT_S = 86_400
ANNOUNCEMENT_TOPIC = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(_KEPT_S * 1000),
    "segment.ms": str(3_600 * 1000),  # only older segments are compacted and deleted
}
"""Of the topic, if it doesn't exist yet."""


@asynccontextmanager
async def announced(
    router: Router, writer: RecordWriter, topic: str, announcement: Announcement
) -> AsyncIterator[None]:
    """The process is announced while the block runs."""
    announcer = _Announcer(router, writer, topic, announcement)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(announcer.run, name="kshare worker: announce")
            yield
            tasks.cancel_scope.cancel()
    except Exception:
        await announcer.end()
        raise
    await announcer.end()


class _Announcer:
    def __init__(self, router: Router, writer: RecordWriter, topic: str, announcement: Announcement) -> None:
        self._router = router
        self._writer = writer
        self._topic = topic
        self._key = announcement.identity.id.encode()
        self._url = announcement.url
        self._value = announcement_value(announcement)
        self._is_there = False
        """Whether the topic is known to exist."""
        self._is_announced = False
        self._retry_s = 0.0
        """How long after the last failure it is tried again; 0 if it succeeded."""
        self._may_be_announced = False

    async def run(self) -> None:
        while True:
            await self._announce()
            await anyio.sleep(self._retry_s or ANNOUNCED_EVERY_S)

    async def _announce(self) -> None:
        problem: str | KshareError = f"that took longer than {_WRITE_S:g} s"
        with anyio.move_on_after(_WRITE_S):
            try:
                await self._require_topic()
                self._may_be_announced = True
                await self._write(self._value)
            except KshareError as error:
                problem = error
            else:
                self._on_success()
                return
        self._on_failure(problem)

    async def end(self) -> None:
        """Say that the process has ended."""
        if not self._may_be_announced:
            return
        problem: str | KshareError = f"that took longer than {_TOMBSTONE_S:g} s"
        with anyio.move_on_after(_TOMBSTONE_S):
            try:
                await self._write(None)
                return
            except KshareError as error:
                problem = error
        log.warning("can't announce in topic %s that this worker has ended: %s", self._topic, problem)

    async def _write(self, value: bytes | None) -> None:
        record = NewRecord(value, self._key, timestamp=round(wall_time() * 1000))
        send = await self._writer.enqueue(self._topic, record, 0)
        send.is_seen = True  # also if this is cancelled: the writer needn't raise its error again
        await send

    async def _require_topic(self) -> None:
        """Create the topic if it doesn't exist. Others who announce themselves may do it at the same time."""
        if self._is_there:
            return
        try:
            await self._router.metadata([self._topic])
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            refusal = await ensure_topic(self._router, self._topic, 1, None, ANNOUNCEMENT_TOPIC)
            if refusal:
                raise refusal from None
        self._is_there = True

    def _on_success(self) -> None:
        if not self._is_announced:
            log.info("announced in topic %s as %s", self._topic, self._url)
        self._is_announced, self._retry_s = True, 0.0

    def _on_failure(self, problem: str | KshareError) -> None:
        """Only the first of several in a row is logged as a warning."""
        self._is_there = False  # it may have been deleted
        level = logging.DEBUG if self._retry_s else logging.WARNING
        self._is_announced = False
        self._retry_s = min(2 * self._retry_s or _FIRST_RETRY_S, ANNOUNCED_EVERY_S)
        log.log(
            level,
            "couldn't announce this worker in topic %s; retrying in %g s, and then less often (down to every %g s). "
            "Processing is unaffected: %s",
            self._topic,
            self._retry_s,
            ANNOUNCED_EVERY_S,
            problem,
        )
