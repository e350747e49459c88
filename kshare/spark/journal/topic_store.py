"""A journal in a Kafka topic of its own, with one partition: as durable as the records, and fenced by the brokers.

The writer is a `FencedWriter`: once a new runner has written its claim, the partition's leader refuses every append of
an older one, however long that one was suspended. Frames that are no longer needed are deleted with DeleteRecords.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshare.admin.configs import topic_values
from kshare.admin.log_offsets import EARLIEST, LATEST, log_offsets
from kshare.admin.log_reading import LogReader
from kshare.admin.record_deletion import delete_records_before
from kshare.admin.routing import Router
from kshare.admin.topics import ensure_topic
from kshare.errors import BrokerError, KshareError, ProducerFenced
from kshare.producer.fenced import FencedWriter
from kshare.producer.records import NewRecord
from kshare.protocol.error_codes import ErrorCode
from kshare.spark.journal.store import JournalError, JournalFenced
from kshare.surroundings import wall_time

_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Frames are deleted when they are no longer needed, and never by age or size."""
_CREATED_S = 30.0
"""A topic exists once CreateTopics has said so, even if brokers still report it as unknown for a while."""
_TRIES = 10
"""A running query may delete frames while a tool reads them."""


class TopicStore:
    """`open` creates the topic if necessary. `unknown_s`: how long a topic that is read may be unknown to brokers."""

    def __init__(self, router: Router, topic: str, *, unknown_s: float = 0.0) -> None:
        self.place = f"topic {topic}"
        self._router = router
        self._topic = topic
        self._unknown_s = unknown_s
        self._writer = FencedWriter(router, f"kshare-journal-{topic}", topic)
        self._reader = LogReader(router)

    async def open(self, topics: Iterable[str]) -> None:
        """Create or check the topic. A new one gets as many replicas as that of `topics` which has most."""
        found = (await self._router.metadata(topics)).topics
        replicas = max((len(row.replica_nodes) for topic in found for row in topic.partitions), default=1)
        refusal = await ensure_topic(self._router, self._topic, 1, replicas, _CONFIG)
        try:
            await self._router.retry(lambda _: self._check(), unknown_s=0.0 if refusal else _CREATED_S)
        except BrokerError as error:
            if refusal and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise refusal from None
            raise

    async def read(self, after: int = -1) -> list[tuple[int, bytes | None]]:
        for _ in range(_TRIES):
            try:
                return await self._router.retry(lambda _: self._read(after), unknown_s=self._unknown_s)
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
        raise JournalError(f"the journal in {self.place} is trimmed faster than it can be read: try again")

    async def _read(self, after: int) -> list[tuple[int, bytes | None]]:
        place = (self._topic, 0)
        first = max(after + 1, (await log_offsets(self._router, [place], EARLIEST))[place])
        end = (await log_offsets(self._router, [place], LATEST))[place]
        topic_id = (await self._router.metadata([self._topic])).topics[0].topic_id
        frames: list[tuple[int, bytes | None]] = []
        async for batch in self._reader.batches((topic_id, 0), first, end):
            for record in batch.records():
                if first <= record.offset < end:
                    value = record.value
                    frames.append((record.offset, None if value is None else bytes(value)))
        return frames

    async def claim(self) -> None:
        await self._writer.claim()

    async def append(self, data: bytes, expected: int) -> int:
        try:
            return await self._writer.append([NewRecord(data, None, (), int(wall_time() * 1000))])
        except ProducerFenced as error:
            raise JournalFenced(str(error)) from None
        except KshareError as error:
            raise JournalError(f"the journal in {self.place} couldn't be written: {error}") from error

    async def trim(self, before: int) -> None:
        if before > 0:  # -1 means all: brokers return it for a frame that they had already
            of = self._writer.topic_id
            await delete_records_before(self._router, self._topic, 0, before, topic_id=of)

    async def _check(self) -> None:
        """Raise JournalError for a topic that would lose frames."""
        partitions = (await self._router.metadata([self._topic])).topics[0].partitions
        if len(partitions) != 1:
            raise JournalError(
                f"the journal's topic {self._topic} has {len(partitions)} partitions, and needs exactly one: write "
                'option("journalTopic", ...) with the name of another topic; kshare creates it'
            )
        values = await topic_values(self._router, self._topic, _CONFIG)
        wrong = [name for name, value in _CONFIG.items() if values.get(name, value) != value]
        if wrong:
            raise JournalError(
                f"the journal's topic {self._topic} has {wrong[0]}={values[wrong[0]]}, so frames could be deleted that "
                "are still needed. If it has other records, name another topic, which kshare creates. Otherwise change "
                f"it: kafka-configs.sh --bootstrap-server ... --alter --entity-type topics "
                f"--entity-name {self._topic} --add-config {wrong[0]}={_CONFIG[wrong[0]]}"
            )
