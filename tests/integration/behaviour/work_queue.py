"""The topic and the share group of one test, on any broker."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from kafka import KafkaProducer

from kshare import ShareConsumer
from kshare.client.record import ShareRecord
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import (
    CreatePartitionsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
)
from kshare.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kshare.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic
from kshare.protocol.messages.delete_topics_request import DeleteTopicState
from kshare.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kshare.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from tests.helpers.plain_client import plain_client

DEADLINE_S = 60.0
_ADMIN_MS = 30_000
_EARLIEST = -2
_LARGEST = 16 * 1024 * 1024

ResponseT = TypeVar("ResponseT", bound=Message)
ResultT = TypeVar("ResultT")


class Broker(Protocol):
    """The interface of brokers that these tests use: real brokers of any release, and the embedded one."""

    @property
    def release(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    def create_topic(
        self, name: str, partitions: int = 1, *, settings: dict[str, str] | None = None
    ) -> None: ...
    def set_group_config(self, group: str, settings: dict[str, str]) -> None: ...
    def set_topic_config(self, topic: str, settings: dict[str, str]) -> None: ...


class WorkQueue:
    """Tests can check `broker.release` where releases behave differently."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        self.broker = broker
        self.topic = topic
        self.group = group
        self.produced = 0

    @property
    def is_4_1(self) -> bool:
        """4.1 has no renewal, no record limit and no delivery limits of groups, and counts deliveries differently."""
        return self.broker.release.startswith("4.1.")

    # --- consuming

    def consumer(self, **options: Any) -> ShareConsumer:
        return ShareConsumer(
            self.broker.bootstrap, **{"group": self.group, "topics": [self.topic], **options}
        )

    # --- producing

    async def produce(self, count: int, **where: Any) -> None:
        """Produce records whose values continue to count up. `where`: arguments of KafkaProducer.send."""
        first = self.produced
        self.produced += count
        await self.send([b"%d" % number for number in range(first, first + count)], **where)

    async def send(self, values: Iterable[bytes | None], **where: Any) -> None:
        """Produce these values. The key is the value unless `where` has another; a header has its number."""
        await in_thread(self._send, list(values), where)

    def values(self, first: int = 0) -> list[bytes]:
        """The values that `produce` has sent, from `first` on."""
        return [b"%d" % number for number in range(first, self.produced)]

    def _send(self, values: Sequence[bytes | None], where: dict[str, Any]) -> None:
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap, max_request_size=_LARGEST)
        try:
            sent = [
                producer.send(
                    self.topic, value=value, **{"key": value, "headers": [("n", b"%d" % number)], **where}
                )
                for number, value in enumerate(values)
            ]
            producer.flush(timeout=DEADLINE_S)
            for future in sent:
                future.get(timeout=0)
        finally:
            producer.close()

    # --- administration

    async def configure_group(self, settings: dict[str, str]) -> None:
        await in_thread(self.broker.set_group_config, self.group, settings)

    async def configure_topic(self, settings: dict[str, str]) -> None:
        await in_thread(self.broker.set_topic_config, self.topic, settings)

    async def create_topic(self, partitions: int = 1) -> None:
        await in_thread(self.broker.create_topic, self.topic, partitions)

    async def delete_topic(self) -> None:
        response = await self.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name=self.topic)], timeout_ms=_ADMIN_MS)
        )
        assert response.responses[0].error_code == 0, response

    async def grow(self, partitions: int) -> None:
        response = await self.ask(
            CreatePartitionsRequest(
                [CreatePartitionsTopic(self.topic, partitions, assignments=None)], timeout_ms=_ADMIN_MS
            )
        )
        assert response.results[0].error_code == 0, response

    async def delete_records(self, before: int) -> None:
        """Delete records of partition 0, as retention does."""
        topic = DeleteRecordsTopic(self.topic, [DeleteRecordsPartition(0, before)])
        response = await self.ask(DeleteRecordsRequest([topic], _ADMIN_MS))
        assert response.topics[0].partitions[0].error_code == 0, response

    async def log_start(self) -> int:
        """The log start offset of partition 0."""
        topic = ListOffsetsTopic(self.topic, [ListOffsetsPartition(0, timestamp=_EARLIEST)])
        return (await self.ask(ListOffsetsRequest(topics=[topic]))).topics[0].partitions[0].offset

    async def start_offset(self) -> int:
        """The group's start offset in partition 0, as last persisted. Everything before it is settled."""
        topics = [DescribeShareGroupOffsetsRequestTopic(self.topic, [0])]
        request = DescribeShareGroupOffsetsRequest(
            [DescribeShareGroupOffsetsRequestGroup(self.group, topics)]
        )
        return (await self.ask(request)).groups[0].topics[0].partitions[0].start_offset

    async def ask(self, request: Request[ResponseT]) -> ResponseT:
        """Send any request to the first broker."""
        return await in_thread(self._ask, request)

    def _ask(self, request: Request[ResponseT]) -> ResponseT:
        host, _, port = self.broker.bootstrap.split(",")[0].rpartition(":")
        with plain_client((host, int(port))) as client:
            client.ask(FindCoordinatorRequest(coordinator_keys=[self.group]))
            return client.ask(request)


async def in_thread(function: Callable[..., ResultT], *arguments: Any) -> ResultT:
    """Run a blocking function while consumers continue."""
    return await anyio.to_thread.run_sync(functools.partial(function, *arguments))


async def take(source: ShareConsumer, count: int) -> list[ShareRecord]:
    """Consume `count` records. Each is accepted implicitly, the last one explicitly."""
    found: list[ShareRecord] = []
    with anyio.fail_after(DEADLINE_S):
        async for record in source:
            found.append(record)
            if len(found) == count:
                record.accept()
                break
    return found


async def nothing_comes(source: ShareConsumer, seconds: float = 0.6) -> bool:
    """Whether no record arrives within this time."""
    with anyio.move_on_after(seconds):
        async for _ in source:
            return False
    return True


async def until(is_so: Callable[[], bool], seconds: float = DEADLINE_S) -> None:
    with anyio.fail_after(seconds):
        while not is_so():
            await anyio.sleep(0.01)
