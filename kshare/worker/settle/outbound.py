"""Writes the copies of a worker: to retry topics and to dead-letter topics. Each write is confirmed by all replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import anyio

from kshare.admin.configs import ConfigResource, describe_many
from kshare.admin.routing import Router
from kshare.admin.topics import ensure_topic
from kshare.errors import BrokerError, KshareError
from kshare.producer.records import NewRecord, PendingSend, Produced
from kshare.producer.settings import WriterSettings
from kshare.producer.writer import RecordWriter
from kshare.protocol.error_codes import ErrorCode
from kshare.worker.records.headers import Header
from kshare.worker.records.results import Result
from kshare.worker.settle.later_records import LaterRecords

WRITE_LIMIT_S = 15.0
"""How long writing a copy may take. After that its record is released instead."""
WRITER_SETTINGS = WriterSettings(
    delivery_timeout=WRITE_LIMIT_S,
    close_timeout=1.0,  # everything was awaited before, or given up
    compression="lz4",  # a record that was written compressed may be too large otherwise
)
_LARGEST_COPY = "max.message.bytes"
_LEAST_LARGEST = 2 * 1024 * 1024
_FOR_HEADERS = 64 * 1024
"""Topics that we create take the largest records of their source, with the headers of a copy. Compressed as we do it,
they may be larger than in the source."""
_MOST_LARGEST = 2**31 - 1


class Publisher(Protocol):
    async def publish(self, topic: str, record: NewRecord, partition: int | None = None) -> Produced:
        """Returns when the record is confirmed; raises KshareError. Without a partition, the key chooses it."""
        ...

    async def write(self, results: Sequence[Result]) -> None:
        """Returns when all are confirmed; raises KshareError if one isn't."""
        ...

    async def has_later(self, topic: str, partition: int, offset: int, header: Header) -> bool:
        """Whether a record behind this offset has the header."""
        ...


class Outbound:
    """`Publisher` on a cluster."""

    def __init__(self, router: Router, writer: RecordWriter) -> None:
        self._router = router
        self._writer = writer
        self._known: set[str] = set()
        self._creating = anyio.Lock()
        self._later = LaterRecords(router)

    async def publish(self, topic: str, record: NewRecord, partition: int | None = None) -> Produced:
        with anyio.move_on_after(2 * WRITE_LIMIT_S):
            await self.require_topic(topic)
            send = await self._writer.enqueue(topic, record, partition)
            send.is_seen = True  # also if this is cancelled: the writer needn't raise its error again
            return await send
        raise KshareError(f"writing to {topic} took longer than {2 * WRITE_LIMIT_S:g} s")

    async def write(self, results: Sequence[Result]) -> None:
        sends: list[PendingSend] = []
        with anyio.move_on_after(2 * WRITE_LIMIT_S):
            for topic, record, partition in results:
                sends.append(await self._writer.enqueue(topic, record, partition))
                sends[-1].is_seen = True
            for send in sends:
                await send.wait()
            for send in sends:
                send.result()
            return
        topics = ", ".join(sorted({result.topic for result in results}))
        raise KshareError(f"writing results to {topics} took longer than {2 * WRITE_LIMIT_S:g} s")

    async def has_later(self, topic: str, partition: int, offset: int, header: Header) -> bool:
        return await self._later.has(topic, partition, offset, header)

    async def require_topic(
        self, topic: str, *, sources: Iterable[str] = (), keeps_dead_letters: bool = False
    ) -> None:
        """Create the topic, for copies of records of the sources, if it doesn't exist. If we aren't authorized to, it
        may exist already."""
        if topic in self._known:
            return
        async with self._creating:
            if topic in self._known:
                return
            await self._create(topic, sources, keeps_dead_letters=keeps_dead_letters)
            self._known.add(topic)

    async def _create(self, topic: str, sources: Iterable[str], *, keeps_dead_letters: bool) -> None:
        settings = {_LARGEST_COPY: str(await self._largest_copy(sources))}
        if keeps_dead_letters:
            try:
                await ensure_topic(self._router, topic, None, None, settings | _MARK)
            except BrokerError as error:
                if error.code != ErrorCode.INVALID_CONFIG:  # brokers before Kafka 4.4 don't know the mark
                    raise
            else:
                return
        await ensure_topic(self._router, topic, None, None, settings)

    async def _largest_copy(self, sources: Iterable[str]) -> int:
        """How large a copy may be. Sources whose settings we may not read count as having the brokers' default."""
        found = await describe_many(self._router, ConfigResource.TOPIC, sources, [_LARGEST_COPY])
        largest = max((int(settings.get(_LARGEST_COPY) or 0) for settings in found.values()), default=0)
        return min(_MOST_LARGEST, max(_LEAST_LARGEST, largest + largest // 16 + _FOR_HEADERS))


_MARK = {"errors.deadletterqueue.group.enable": "true"}
"""Says that a topic is for dead letters, so that `kshare dlq list` finds it."""
