"""Reads the topic of batch markers, and creates it.

Keeps what was read between the tasks of a Python worker, so that only newer markers are fetched. A task needs all
markers that were committed before it began: those behind an open transaction aren't readable yet, so it waits until
that transaction has ended.
"""

from __future__ import annotations

import logging

import anyio

from kshare.admin.configs import topic_values
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.routing import Router
from kshare.admin.topics import ensure_topic
from kshare.errors import BrokerError, KshareError, NotAuthorized
from kshare.protocol.error_codes import ErrorCode
from kshare.spark.sink.batch_marker import BatchMarker, MarkerKey

log = logging.getLogger("kshare.spark")

PARTITION = 0
"""Of a topic of markers: one partition has them all, so that a task finds those of all others."""
_DELETING = ("cleanup.policy", "retention.ms", "retention.bytes")
_PAUSE_S = 0.02
_WARN_S = 5.0
_APPEARS_S = 30.0
"""How long a topic that was created may be unknown to some brokers."""


class MarkerLog:
    """The markers in one topic."""

    def __init__(self, router: Router, reader: LogReader, topic: str) -> None:
        self._router = router
        self._reader = reader
        self._topic = topic
        self._topic_id = b""
        self._next = 0
        self._markers: dict[MarkerKey, BatchMarker] = {}
        self._lock = anyio.Lock()

    async def read(self, limit: float) -> dict[MarkerKey, BatchMarker]:
        """All markers that are committed by now. `limit`: how many seconds to wait for open transactions."""
        async with self._lock:
            await self._find_topic()
            place = (self._topic, PARTITION)
            end = (await log_offsets(self._router, [place], LATEST))[place]
            await self._wait_until_stable(end, limit)
            # Compaction may have removed what was at this offset, but never the newest marker of a task.
            first = (await log_offsets(self._router, [place], EARLIEST))[place]
            await self._read_to(max(self._next, first), end)
            self._next = end
            return self._markers

    async def _read_to(self, first: int, end: int) -> None:
        at = first
        while at < end:
            fetch = await self._reader.fetch((self._topic_id, PARTITION), at)
            for batch, is_committed in fetch.batches():
                at = batch.last_offset + 1
                if is_committed:
                    for record in batch:
                        key = MarkerKey.from_bytes(record.key)
                        if key is not None and record.value is not None:
                            self._markers[key] = self._marker(record.offset, record.value)

    def _marker(self, offset: int, value: bytes) -> BatchMarker:
        try:
            return BatchMarker.from_bytes(value)
        except KshareError as error:
            raise KshareError(
                f"exactlyOnceTopic: can't read {self._topic}[{PARTITION}] at offset {offset}: {error}. Use a topic "
                "that nothing else writes to"
            ) from None

    async def _wait_until_stable(self, end: int, limit: float) -> None:
        place, began, has_warned = (self._topic, PARTITION), anyio.current_time(), False
        while (await log_offsets(self._router, [place], LATEST, is_committed_only=True))[place] < end:
            waited = anyio.current_time() - began
            if waited > limit:
                raise KshareError(
                    f"a transaction in {self._topic}[{PARTITION}] has been open for {limit:g} s, so it isn't known "
                    "what was written: find it with kafka-transactions.sh find-hanging, and abort it"
                )
            if waited > _WARN_S and not has_warned:
                log.warning("waiting for an open transaction in %s[%d]", self._topic, PARTITION)
                has_warned = True
            await anyio.sleep(_PAUSE_S)

    async def _find_topic(self) -> None:
        """Look it up, because a topic that was deleted and created again starts over; create it if it is missing."""

        async def find(_: float) -> bytes:
            try:
                return (await self._router.metadata([self._topic])).topics[0].topic_id
            except BrokerError as error:
                if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    await self._create()
                raise

        topic_id = await self._router.retry(find, unknown_s=_APPEARS_S)
        if topic_id != self._topic_id:
            await self._router.retry(lambda _: self._check_retention(), unknown_s=_APPEARS_S)
            self._topic_id, self._next, self._markers = topic_id, 0, {}

    async def _check_retention(self) -> None:
        """Raise KshareError if markers could be deleted. Works without the right to see the topic's configuration."""
        try:
            values = await topic_values(self._router, self._topic, _DELETING)
        except NotAuthorized:
            return
        kept = [name for name in ("retention.ms", "retention.bytes") if values.get(name, "-1") != "-1"]
        if "delete" in (values.get("cleanup.policy") or "") and kept:
            raise KshareError(
                f"exactlyOnceTopic: {self._topic} deletes batch markers (cleanup.policy={values['cleanup.policy']}, "
                f"{kept[0]}={values[kept[0]]}), and a repeated micro-batch would be written twice. Change it: "
                f"kafka-configs.sh --bootstrap-server ... --alter --entity-type topics --entity-name {self._topic} "
                "--add-config cleanup.policy=compact"
            )

    async def _create(self) -> None:
        refusal = await ensure_topic(self._router, self._topic, 1, None, {"cleanup.policy": "compact"})
        if refusal:
            raise refusal
