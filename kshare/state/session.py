"""A share session: the state that one member and one broker share.

For each member that fetches from it, a broker keeps a list of partitions and an epoch. Every request of the session
carries the next epoch; at most one is under way. The session owns every lock taken through it: when it ends, for
whatever reason, the broker releases its records at once, and other members may get them.

    state   | event                                  | next   | effect
    --------+----------------------------------------+--------+---------------------------------------------
    closed  | fetch                                  | opening| epoch 0, all wanted partitions, no acknowledgements
    opening | response without error                 | open   | epoch 1
    open    | fetch, acknowledge                     | open   | epoch + 1; only changed partitions are named
    open    | close                                  | closed | epoch -1, may carry acknowledgements
    any     | top-level error in the response        | closed | reset: everything acquired is lost
    any     | connection lost, request timed out     | closed | the same
    any     | response to a request before a reset   | same   | dropped

Decides which partitions a request names and which epoch it carries. Never decides what to acknowledge, how much to
fetch, or when; never looks into records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import share_acknowledge_request as acknowledging
from kshare.protocol.messages import share_fetch_request as fetching
from kshare.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kshare.protocol.messages.share_acknowledge_response import NodeEndpoint as AcknowledgingEndpoint
from kshare.protocol.messages.share_acknowledge_response import PartitionData as AcknowledgedPartition
from kshare.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from kshare.protocol.messages.share_fetch_request import ShareFetchRequest
from kshare.protocol.messages.share_fetch_response import NodeEndpoint as FetchingEndpoint
from kshare.protocol.messages.share_fetch_response import PartitionData, ShareFetchResponse
from kshare.state.lease import TopicIdPartition

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_HIGHEST_EPOCH = 2**31 - 1
MOVED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}
"""Only with these errors does a broker say where the leader is now."""


_NOTHING: Mapping[TopicIdPartition, int] = MappingProxyType({})


class AckRange(NamedTuple):
    """Offsets with their acknowledgement types: one for all of them, or one for each."""

    first: int
    last: int
    types: bytes


Acks = Mapping[TopicIdPartition, Sequence[AckRange]]


class FetchLimits(NamedTuple):
    """How much a fetch may return, and how long the broker may wait for it."""

    max_records: int
    max_wait_ms: int
    max_bytes: int
    is_strict: bool = False
    """Record-limit mode: at most this many records, even out of a larger batch."""


class SentRequest(NamedTuple):
    """A request under way: to be passed to `on_response` with its response."""

    request: ShareFetchRequest | ShareAcknowledgeRequest
    acks: Acks
    partitions: frozenset[TopicIdPartition]
    """Partitions that are in the broker's session once it has read the request."""


class Leader(NamedTuple):
    """A partition's current leader, as a broker reports it."""

    partition: TopicIdPartition
    node: int
    epoch: int


class SessionResponse(NamedTuple):
    """The content of a response."""

    error: int = 0
    """The top-level error: the session was reset, and nothing below is filled in."""
    message: str | None = None
    acknowledged: Mapping[TopicIdPartition, int] = _NOTHING
    """Error code, 0 for success, of each acknowledged partition that the response mentions."""
    without_response: frozenset[TopicIdPartition] = frozenset()
    """Acknowledged partitions that the response doesn't mention: their outcome is open."""
    acquired: Sequence[tuple[TopicIdPartition, PartitionData]] = ()
    unexpected: Sequence[TopicIdPartition] = ()
    """Partitions that aren't in the session, or appear twice: damage, which is ignored."""
    failed: Mapping[TopicIdPartition, int] = _NOTHING
    """Partitions that couldn't be fetched from, with their error code."""
    leaders: Sequence[Leader] = ()
    endpoints: Sequence[FetchingEndpoint | AcknowledgingEndpoint] = ()
    """Where those leaders can be reached."""
    lock_ms: int = 0


class ShareSession:
    """The client's half of one session."""

    def __init__(self, group_id: str, member_id: str) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self._epoch = INITIAL_EPOCH
        self.wanted: frozenset[TopicIdPartition] = frozenset()
        self.under_way: SentRequest | None = None
        """The request that the broker hasn't responded to yet. It isn't stored anywhere else."""
        self._in_session: frozenset[TopicIdPartition] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether acknowledgements can be sent: the request that opens the session can't carry any."""
        return self._epoch != INITIAL_EPOCH

    @property
    def has_partition_changes(self) -> bool:
        """Whether the broker still has to add or to forget partitions."""
        return self.wanted != self._in_session

    def want(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Replaces the partitions to fetch from this broker."""
        self.wanted = frozenset(partitions)

    def fetch(self, limits: FetchLimits, acks: Acks) -> SentRequest:
        """Asks for records. A fetch that acknowledges a partition adds it to the session: a later one forgets it."""
        self._check(acks)
        added = self.wanted - self._in_session
        forgotten = self._in_session - self.wanted - acks.keys()
        request = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=1,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.max_records,
            share_acquire_mode=1 if limits.is_strict else 0,
            topics=[
                fetching.FetchTopic(
                    topic_id,
                    [
                        fetching.FetchPartition(
                            acknowledgement_batches=[
                                fetching.AcknowledgementBatch(*ack)
                                for ack in acks.get((topic_id, number), ())
                            ],
                            partition_index=number,
                        )
                        for number in numbers
                    ],
                )
                for topic_id, numbers in _by_topic(added | acks.keys())
            ],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id, numbers) for topic_id, numbers in _by_topic(forgotten)
            ],
        )
        return self._send(request, acks, (self._in_session - forgotten) | added | acks.keys())

    def acknowledge(self, acks: Acks, *, is_renewing: bool = False) -> SentRequest:
        """Acknowledges without asking for records; renews without the cost of a fetch. It adds no partitions: those
        that the broker has forgotten have to be added again before it returns records of them."""
        return self._send(self._acknowledgement(acks, self._epoch, is_renewing), acks, self._in_session)

    def has(self, partition: TopicIdPartition) -> bool:
        """Whether ending the session releases records of this partition."""
        return partition in self._in_session

    def close(self, acks: Acks) -> SentRequest:
        """The last request: the broker releases what it doesn't acknowledge."""
        return self._send(self._acknowledgement(acks, FINAL_EPOCH, False), acks, frozenset())

    def reset(self) -> None:
        """The session has ended, or its state is unknown: everything it acquired is lost."""
        self._epoch = INITIAL_EPOCH
        self._in_session = frozenset()
        self.under_way = None

    def on_response(
        self, sent: SentRequest, response: ShareFetchResponse | ShareAcknowledgeResponse
    ) -> SessionResponse:
        """Takes the response to `sent`, and returns its content."""
        if sent is not self.under_way:
            return SessionResponse()  # the response to a request before a reset: ignored
        self.under_way = None
        if response.error_code != ErrorCode.NONE:
            self.reset()
            return SessionResponse(error=response.error_code, message=response.error_message)
        if sent.request.share_session_epoch == FINAL_EPOCH:
            self.reset()
        else:
            self._epoch = 1 if self._epoch == _HIGHEST_EPOCH else self._epoch + 1
            self._in_session = sent.partitions
        if isinstance(response, ShareFetchResponse):
            return _read_fetch(sent, response)
        return _read_acknowledgement(sent, response)

    def _acknowledgement(self, acks: Acks, epoch: int, is_renewing: bool) -> ShareAcknowledgeRequest:
        self._check(acks)
        if not self.is_open:
            raise ValueError("a session that isn't open has nothing to acknowledge or to close")
        topics: list[acknowledging.AcknowledgeTopic] = []
        for topic_id, number in sorted(acks):
            if not topics or topics[-1].topic_id != topic_id:
                topics.append(acknowledging.AcknowledgeTopic(topic_id, []))
            batches = [acknowledging.AcknowledgementBatch(*ack) for ack in acks[topic_id, number]]
            topics[-1].partitions.append(acknowledging.AcknowledgePartition(number, batches))
        return ShareAcknowledgeRequest(self.group_id, self.member_id, epoch, is_renewing, topics)

    def _check(self, acks: Acks) -> None:
        if self.under_way:
            raise ValueError("a request of this session is under way: its requests go one after another")
        if acks and not self.is_open:
            raise ValueError("the request that opens a session may carry no acknowledgements")

    def _send(
        self,
        request: ShareFetchRequest | ShareAcknowledgeRequest,
        acks: Acks,
        partitions: frozenset[TopicIdPartition],
    ) -> SentRequest:
        self.under_way = SentRequest(request, acks, partitions)
        return self.under_way


def _by_topic(partitions: Iterable[TopicIdPartition]) -> list[tuple[bytes, list[int]]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return list(topics.items())


def _read_fetch(sent: SentRequest, response: ShareFetchResponse) -> SessionResponse:
    acknowledged: dict[TopicIdPartition, int] = {}
    acquired: list[tuple[TopicIdPartition, PartitionData]] = []
    failed: dict[TopicIdPartition, int] = {}
    leaders: list[Leader] = []
    unexpected: list[TopicIdPartition] = []
    missing = set(sent.partitions)
    for topic in response.responses:
        for data in topic.partitions:
            partition = (topic.topic_id, data.partition_index)
            if partition not in missing:
                unexpected.append(partition)
                continue
            missing.remove(partition)
            if partition in sent.acks:
                acknowledged[partition] = data.acknowledge_error_code
            if data.error_code:
                failed[partition] = data.error_code
            elif data.acquired_records:
                acquired.append((partition, data))
            if MOVED & {data.error_code, data.acknowledge_error_code}:
                leaders += _leader(partition, data)
    return SessionResponse(
        acknowledged=acknowledged,
        without_response=frozenset(sent.acks.keys() - acknowledged.keys()),
        acquired=acquired,
        unexpected=unexpected,
        failed=failed,
        leaders=leaders,
        endpoints=response.node_endpoints,
        lock_ms=response.acquisition_lock_timeout_ms,
    )


def _read_acknowledgement(sent: SentRequest, response: ShareAcknowledgeResponse) -> SessionResponse:
    acknowledged: dict[TopicIdPartition, int] = {}
    leaders: list[Leader] = []
    for topic in response.responses:
        for data in topic.partitions:
            partition = (topic.topic_id, data.partition_index)
            acknowledged[partition] = data.error_code
            if data.error_code in MOVED:
                leaders += _leader(partition, data)
    return SessionResponse(
        acknowledged=acknowledged,
        without_response=frozenset(sent.acks.keys() - acknowledged.keys()),
        leaders=leaders,
        endpoints=response.node_endpoints,
        lock_ms=response.acquisition_lock_timeout_ms,
    )


def _leader(partition: TopicIdPartition, data: PartitionData | AcknowledgedPartition) -> list[Leader]:
    """Empty if the broker doesn't know the new leader either, which it reports as -1."""
    node, epoch = data.current_leader.leader_id, data.current_leader.leader_epoch
    return [Leader(partition, node, epoch)] if node >= 0 and epoch >= 0 else []
