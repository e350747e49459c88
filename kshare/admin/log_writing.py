"""Appends records to topics with plain Produce requests: the counterpart of `log_reading`.

Decides which broker to ask, and what to retry. Every batch is confirmed by all in-sync replicas before the next one for
its partition is sent. It has a producer id and a sequence number, so that it isn't written twice if the response is
lost and it is sent again. `choose` chooses the partition of a record.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio

from kshare.admin.log_offsets import no_partition
from kshare.admin.partitioner import partition_for
from kshare.admin.routing import ErrorsOf, ResponseError, Router, response_error
from kshare.errors import BrokerError, ConnectionLost, KshareError, RequestTimedOut
from kshare.net.permissions import Right
from kshare.protocol.compression import Compression
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.protocol.record_builder import BatchBuilder

Headers = Sequence[tuple[str, bytes | None]]

_BATCH_BYTES = 512 * 1024
"""Half of the brokers' default limit, so that no batch is refused for its size unless a record would be."""
_BEING_MADE_S = 5.0
_ALL_REPLICAS = -1
_REPLICAS_MS = 30_000
_LARGEST_SEQUENCE = 2**31 - 1
_MEANS_OTHERS_LEAD = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
}


class NewRecord(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int = 0
    """Milliseconds since 1970."""


@dataclass(slots=True)
class _Topic:
    topic_id: bytes
    leaders: dict[int, int]
    turn: int


@dataclass(slots=True)
class _Sequences:
    """The sequence numbers of one producer id. A batch is retried with the producer id that it was first sent with."""

    producer_id: int
    producer_epoch: int
    following: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))


class LogWriter:
    """Appends records. Missing topics are created if brokers do that for producers (`auto.create.topics.enable`)."""

    def __init__(self, router: Router, compression: Compression = Compression.NONE) -> None:
        self._router = router
        self._compression = compression
        self._topics: dict[str, _Topic] = {}
        self._sequences: _Sequences | None = None
        self._partition_locks: dict[tuple[str, int], anyio.Lock] = defaultdict(anyio.Lock)
        self._sequences_lock = anyio.Lock()

    async def partition_count(self, topic: str) -> int:
        return len((await self._topic_metadata(topic)).leaders)

    async def choose(self, topic: str, key: bytes | None) -> int:
        """Choose the partition by the key, as Java's producers do; without a key, each partition in turn."""
        metadata = await self._topic_metadata(topic)
        if key is not None:
            return partition_for(key, len(metadata.leaders))
        metadata.turn = (metadata.turn + 1) % len(metadata.leaders)
        return metadata.turn

    async def append(self, topic: str, partition: int, records: Iterable[NewRecord]) -> int:
        """Append all records, in as many batches as needed. Returns the offset of the first."""
        first = -1
        async with self._partition_locks[topic, partition]:
            builder = BatchBuilder()
            for record in records:
                if builder.record_count and builder.size + _size(record) > _BATCH_BYTES:
                    first = await self._write(topic, partition, builder, first)
                    builder = BatchBuilder()
                builder.append(
                    record.value, key=record.key, headers=record.headers, timestamp=record.timestamp
                )
            if builder.record_count:
                first = await self._write(topic, partition, builder, first)
        return first

    async def _write(self, topic: str, partition: int, builder: BatchBuilder, first: int) -> int:
        """Write the builder's batch. Returns `first`, or the batch's offset if `first` is negative."""
        async with self._sequences_lock:
            sequences = self._sequences = self._sequences or await self._new_sequences()
        where = (topic, partition)
        builder.compression = self._compression
        builder.producer_id, builder.producer_epoch = sequences.producer_id, sequences.producer_epoch
        builder.base_sequence = sequences.following[where]
        try:
            offset = await self._send(topic, partition, bytes(builder.build()))
        except (ConnectionLost, RequestTimedOut):
            # It may have been written. Then brokers would take a batch with the same sequence number for a duplicate.
            self._sequences = None
            raise
        except BrokerError as error:
            if error.is_retriable:
                self._sequences = None
            raise
        following = builder.base_sequence + builder.record_count
        sequences.following[where] = following % (_LARGEST_SEQUENCE + 1)
        return first if first >= 0 else offset

    async def _send(self, topic: str, partition: int, batch: bytes) -> int:
        async def step(deadline: float) -> int:
            metadata = await self._topic_metadata(topic)
            leader = metadata.leaders.get(partition)
            if leader is None:
                raise KshareError(no_partition(topic, partition, len(metadata.leaders)))
            rows = [PartitionProduceData(partition, batch)]
            request = ProduceRequest(
                None, _ALL_REPLICAS, _REPLICAS_MS, [TopicProduceData(topic, metadata.topic_id, rows)]
            )
            try:
                answer = await self._router.ask(leader, request, _produce_errors(topic), deadline)
            except (ConnectionLost, RequestTimedOut):
                del self._topics[topic]
                raise
            except BrokerError as error:
                if error.code in _MEANS_OTHERS_LEAD:
                    del self._topics[topic]
                raise
            return answer.responses[0].partition_responses[0].base_offset

        return await self._router.retry(step)

    async def _new_sequences(self) -> _Sequences:
        request = InitProducerIdRequest(None, _REPLICAS_MS)
        answer = await self._router.ask_any(request, _begin_errors)
        return _Sequences(answer.producer_id, answer.producer_epoch)

    async def _topic_metadata(self, topic: str) -> _Topic:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = await self._look_up(topic)
        return found

    async def _look_up(self, topic: str) -> _Topic:
        """While a topic is being created by this request, brokers report it as unknown for a moment: retry."""
        patience = anyio.current_time() + _BEING_MADE_S
        while True:
            request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
            try:
                answer = await self._router.ask_any(request, _metadata_errors)
                break
            except BrokerError as error:
                unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not unknown or anyio.current_time() > patience:
                    raise
            await anyio.sleep(0.1)
        self._router.learn(answer)
        rows = answer.topics[0].partitions
        leaders = {row.partition_index: row.leader_id for row in rows}
        return _Topic(answer.topics[0].topic_id, leaders, random.randrange(len(leaders)))


def _size(record: NewRecord) -> int:
    """The approximate size of a record in a batch."""
    headers = sum(len(name) + len(content or b"") + 10 for name, content in record.headers)
    return len(record.value or b"") + len(record.key or b"") + headers + 32


def _metadata_errors(answer: MetadataResponse) -> Iterable[ResponseError | None]:
    yield response_error(answer.error_code, "finding the brokers")
    for topic in answer.topics:
        name = topic.name or ""
        yield response_error(topic.error_code, f"topic {name}", needs=[Right("Describe", "topic", name)])
        for row in topic.partitions:
            if row.leader_id < 0:
                yield response_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}[{row.partition_index}]")


def _begin_errors(answer: InitProducerIdResponse) -> Iterable[ResponseError | None]:
    yield response_error(answer.error_code, "getting a producer id")


def _produce_errors(topic: str) -> ErrorsOf[ProduceResponse]:
    def errors_of(answer: ProduceResponse) -> Iterable[ResponseError | None]:
        for each in answer.responses:
            for row in each.partition_responses:
                action = f"writing to {topic}[{row.index}]"
                yield response_error(
                    row.error_code, action, row.error_message, [Right("Write", "topic", topic)]
                )

    return errors_of
