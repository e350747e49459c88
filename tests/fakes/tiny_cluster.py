"""A minimal cluster for a whole consumer: real sockets, some nodes, topics of one partition in memory.

It is simplified: only one member, and every assignment arrives at once. It shares only the codecs with the client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from kshare.net.addresses import Address, format_address
from kshare.protocol.envelopes import encode_response
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kshare.protocol.messages import metadata_response as metadata
from kshare.protocol.messages import share_acknowledge_response as acknowledged
from kshare.protocol.messages import share_fetch_response as fetched
from kshare.protocol.messages.find_coordinator_response import Coordinator
from kshare.protocol.messages.share_group_heartbeat_response import Assignment, TopicPartitions
from kshare.protocol.record_builder import BatchBuilder
from tests.fakes.peer import Conversation, peer, versions_response

AVAILABLE, ACQUIRED, ACCEPTED, ARCHIVED = "available", "acquired", "accepted", "archived"
_NEXT = {0: ARCHIVED, 1: ACCEPTED, 2: AVAILABLE, 3: ARCHIVED}
_MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


@dataclass
class Topic:
    name: str
    topic_id: bytes
    values: list[bytes] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    deliveries: list[int] = field(default_factory=list)
    holders: dict[int, Conversation] = field(default_factory=dict)
    leader: int = 1
    leader_epoch: int = 1

    def append(self, *values: bytes) -> None:
        self.values += values
        self.states += [AVAILABLE] * len(values)
        self.deliveries += [0] * len(values)

    def release(self, talk: Conversation | None = None) -> None:
        """Release the records that this connection holds, or all records that are held."""
        for offset, holder in list(self.holders.items()):
            if talk is None or holder is talk:
                self.states[offset] = AVAILABLE
                del self.holders[offset]

    def move(self, node: int) -> None:
        """Move the leader to another node. Locks don't survive it."""
        self.leader, self.leader_epoch = node, self.leader_epoch + 1
        self.release()


@dataclass
class Session:
    epoch: int = 0
    names: set[bytes] = field(default_factory=set)


class TinyCluster:
    """Use `async with cluster.running()`. `requests` has all requests, each with the node that received it."""

    def __init__(self, *names: str, nodes: int = 1) -> None:
        self.topics = {name: Topic(name, bytes([65 + n]) * 16) for n, name in enumerate(names)}
        self.nodes = list(range(1, nodes + 1))
        self.addresses: dict[int, Address] = {}
        self.requests: list[tuple[int, Message]] = []
        self.subscribed: list[str] = []
        self.lock_ms = 30000
        self.hidden: set[int] = set()
        """Nodes that metadata responses leave out."""
        self.error_next: dict[type[Message], int] = {}
        """The error code for the next request of a kind."""
        self.frozen: set[int] = set()
        """Nodes that accept connections and respond to no requests."""
        self.error_always: dict[type[Message], int] = {}
        self.is_silent = False
        """Whether fetches get no response."""
        self.spoil: Callable[[Message, bytearray], bytearray] | None = None
        """Returns what is sent instead of a response's frame."""
        self.silent_acks = False
        """Whether acknowledge requests get no response."""
        self.delay_s = 0.0
        """How long every fetch and acknowledge request waits before it is processed."""
        self.responses_at_once = False
        """Whether fetches are answered at once, although there are no records."""
        self.stands_still = False
        """Whether fetches are answered at once, without the records that there are, until a connection with a session
        is closed. Real brokers do so after records below acquired ones were deleted."""
        self.partition_error = 0
        """The error code with which fetches get responses for every partition."""
        self.talks: list[Conversation] = []
        self.open_connections = 0

    @property
    def bootstrap(self) -> str:
        return format_address(self.addresses[1])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[TinyCluster]:
        async with AsyncExitStack() as stack:
            for node in self.nodes:
                self.addresses[node] = await stack.enter_async_context(peer(_Node(self, node).serve))
            yield self

    async def hang_up(self) -> None:
        for talk in self.talks:
            await anyio.aclose_forcefully(talk.stream)
        self.talks.clear()

    def take_away(self, name: str, offset: int) -> None:
        """As if the lock of this record had expired."""
        topic = self.topics[name]
        topic.states[offset] = AVAILABLE
        del topic.holders[offset]

    def asked(self, kind: type[Message], node: int | None = None) -> list[Any]:
        return [request for at, request in self.requests if isinstance(request, kind) and node in (None, at)]

    def by_id(self, topic_id: bytes) -> Topic:
        return next(topic for topic in self.topics.values() if topic.topic_id == topic_id)


class _Node:
    def __init__(self, cluster: TinyCluster, number: int) -> None:
        self.cluster = cluster
        self.number = number

    async def serve(self, talk: Conversation) -> None:
        session = Session()
        self.cluster.talks.append(talk)
        self.cluster.open_connections += 1
        try:
            while True:
                header, request = await talk.request(Message)
                while self.number in self.cluster.frozen:
                    await anyio.sleep(0.01)
                self.cluster.requests.append((self.number, request))
                response = await self._response(talk, session, request)
                frame = encode_response(response, header.request_api_version, header.correlation_id)
                await talk.send(self.cluster.spoil(response, frame) if self.cluster.spoil else frame)
        finally:
            self.cluster.open_connections -= 1
            if session.names:
                self.cluster.stands_still = False
            for topic in self.cluster.topics.values():
                topic.release(talk)

    async def _response(self, talk: Conversation, session: Session, request: Any) -> Message:
        error = self.cluster.error_next.pop(type(request), 0) or self.cluster.error_always.get(
            type(request), 0
        )
        match request:
            case ApiVersionsRequest():
                return versions_response()
            case FindCoordinatorRequest():
                host, port = self.cluster.addresses[1]
                return FindCoordinatorResponse(
                    coordinators=[Coordinator(request.coordinator_keys[0], 1, host, port)]
                )
            case ShareGroupHeartbeatRequest():
                return self._heartbeat(request, error)
            case MetadataRequest():
                return self._metadata(request, error)
            case ShareFetchRequest() if self.cluster.is_silent:
                await anyio.sleep_forever()
            case ShareFetchRequest():
                await anyio.sleep(self.cluster.delay_s)
                return await self._fetch(talk, session, request, error)
            case ShareAcknowledgeRequest() if self.cluster.silent_acks:
                await anyio.sleep_forever()
            case ShareAcknowledgeRequest():
                await anyio.sleep(self.cluster.delay_s)
                return self._acknowledge(talk, session, request)
        raise AssertionError(request)

    def _heartbeat(self, request: ShareGroupHeartbeatRequest, error: int) -> ShareGroupHeartbeatResponse:
        if error:
            return ShareGroupHeartbeatResponse(error_code=error)
        response = ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch + 1, heartbeat_interval_ms=100
        )
        if request.subscribed_topic_names is not None:
            self.cluster.subscribed = list(request.subscribed_topic_names)
            rows = [
                TopicPartitions(self.cluster.topics[name].topic_id, [0]) for name in self.cluster.subscribed
            ]
            response.assignment = Assignment(rows)
        return response

    def _metadata(self, request: MetadataRequest, error: int) -> MetadataResponse:
        if error:
            return MetadataResponse(error_code=error)
        wanted = [
            self.cluster.topics[topic.name] if topic.name is not None else self.cluster.by_id(topic.topic_id)
            for topic in request.topics or ()
        ]
        return MetadataResponse(
            brokers=[
                metadata.MetadataResponseBroker(node, *address)
                for node, address in self.cluster.addresses.items()
                if node not in self.cluster.hidden
            ],
            topics=[
                metadata.MetadataResponseTopic(
                    0,
                    topic.name,
                    topic.topic_id,
                    partitions=[metadata.MetadataResponsePartition(0, 0, topic.leader, topic.leader_epoch)],
                )
                for topic in wanted
            ],
        )

    # --- the share session

    async def _fetch(
        self, talk: Conversation, session: Session, request: ShareFetchRequest, error: int
    ) -> ShareFetchResponse:
        acks = self._take_note(session, request)
        if error or acks is None:
            return ShareFetchResponse(error_code=error or ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        results = {topic_id: self._settle(talk, topic_id, batches) for topic_id, batches in acks.items()}
        rows: dict[bytes, fetched.PartitionData] = {}
        until = anyio.current_time() + request.max_wait_ms / 1000
        while not rows and not self.cluster.stands_still:
            for topic_id in session.names:
                data = self._acquire(talk, topic_id, request.max_records, request.max_bytes)
                if data is not None:
                    rows[topic_id] = data
            if results or self.cluster.responses_at_once or anyio.current_time() >= until:
                break
            await anyio.sleep(0.002)
        moved = False
        for topic_id, result in results.items():
            row = rows.setdefault(topic_id, fetched.PartitionData(0))
            row.acknowledge_error_code = result
        for topic_id, row in rows.items():
            if _MOVED in (row.error_code, row.acknowledge_error_code):
                moved = True
                topic = self.cluster.by_id(topic_id)
                row.current_leader = fetched.LeaderIdAndEpoch(topic.leader, topic.leader_epoch)
        return ShareFetchResponse(
            responses=[
                fetched.ShareFetchableTopicResponse(topic_id, [row]) for topic_id, row in rows.items()
            ],
            acquisition_lock_timeout_ms=self.cluster.lock_ms,
            node_endpoints=[
                fetched.NodeEndpoint(node, *address) for node, address in self.cluster.addresses.items()
            ]
            if moved
            else [],
        )

    def _acknowledge(
        self, talk: Conversation, session: Session, request: ShareAcknowledgeRequest
    ) -> ShareAcknowledgeResponse:
        acks = self._take_note(session, request)
        if acks is None:
            return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        rows = [
            acknowledged.ShareAcknowledgeTopicResponse(
                topic_id, [acknowledged.PartitionData(0, self._settle(talk, topic_id, batches))]
            )
            for topic_id, batches in acks.items()
        ]
        if request.share_session_epoch == -1:
            for topic in self.cluster.topics.values():
                topic.release(talk)
        return ShareAcknowledgeResponse(responses=rows, acquisition_lock_timeout_ms=self.cluster.lock_ms)

    def _take_note(self, session: Session, request: Any) -> dict[bytes, list[Any]] | None:
        """The acknowledgements by topic; None if the epoch is wrong."""
        if request.share_session_epoch == 0:
            session.epoch, session.names = 0, set()
        if request.share_session_epoch not in (session.epoch, -1):
            return None
        session.epoch += 1
        rows = [(topic.topic_id, row) for topic in request.topics for row in topic.partitions]
        session.names |= {topic_id for topic_id, _ in rows}
        if isinstance(request, ShareFetchRequest):
            session.names -= {topic.topic_id for topic in request.forgotten_topics_data}
        acks = {
            topic_id: row.acknowledgement_batches for topic_id, row in rows if row.acknowledgement_batches
        }
        assert not (acks and request.share_session_epoch == 0), "acknowledgements when a session opens"
        return acks

    def _settle(self, talk: Conversation, topic_id: bytes, batches: list[Any]) -> int:
        topic = self.cluster.by_id(topic_id)
        if topic.leader != self.number:
            return _MOVED
        wanted: list[tuple[int, int]] = []
        for batch in batches:
            types, count = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
            types = types * count if len(types) == 1 else types
            wanted += zip(range(batch.first_offset, batch.last_offset + 1), types, strict=True)
        if any(topic.holders.get(offset) is not talk for offset, _ in wanted):
            return ErrorCode.INVALID_RECORD_STATE
        for offset, kind in wanted:
            topic.states[offset] = _NEXT.get(kind, ACQUIRED)
            if kind in _NEXT:
                del topic.holders[offset]
        return 0

    def _acquire(
        self, talk: Conversation, topic_id: bytes, max_records: int, max_bytes: int
    ) -> fetched.PartitionData | None:
        topic = self.cluster.by_id(topic_id)
        if self.cluster.partition_error:
            return fetched.PartitionData(0, error_code=self.cluster.partition_error)
        if topic.leader != self.number:
            return fetched.PartitionData(0, error_code=_MOVED)
        offsets = [offset for offset, state in enumerate(topic.states) if state == AVAILABLE][:max_records]
        if not offsets:
            return None
        while len(offsets) > 1 and sum(len(topic.values[offset]) for offset in offsets) > max_bytes:
            offsets.pop()  # the first one is returned, however large
        builder = BatchBuilder(base_offset=offsets[0], leader_epoch=1)  # the epoch when it was written
        ranges: list[fetched.AcquiredRecords] = []
        for offset in offsets:
            builder.append(topic.values[offset], timestamp=0, offset=offset)
            topic.states[offset] = ACQUIRED
            topic.holders[offset] = talk
            topic.deliveries[offset] += 1
            count = topic.deliveries[offset]
            if ranges and ranges[-1].last_offset == offset - 1 and ranges[-1].delivery_count == count:
                ranges[-1].last_offset = offset
            else:
                ranges.append(fetched.AcquiredRecords(offset, offset, count))
        return fetched.PartitionData(0, records=bytes(builder.build()), acquired_records=ranges)
