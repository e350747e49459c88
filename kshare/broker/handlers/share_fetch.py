"""ShareFetch v1-2: handles acknowledgements, then acquires records. Waits until there are some.

Top-level errors change nothing, except that the session epoch may have increased. The response contains partitions with
records, errors or acknowledgements, and each partition once after it was added to the session.

v1: the first supported version; v0 was for early access in Kafka 4.0.
v2: acquire mode record-limit, and acknowledgements can renew locks; the request adds ShareAcquireMode
    and IsRenewAck. Since Kafka 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.cluster import TopicIdPartition
from kshare.broker.connection import Call
from kshare.broker.new_leaders import NewLeaders
from kshare.broker.request_error import RequestError
from kshare.broker.shares.acknowledging import Batches, settle
from kshare.broker.shares.fetching import FetchParameters, RecordsByPartition, ShareFetching
from kshare.broker.shares.sessions import CLOSE, OPEN, ShareSession
from kshare.broker.shares.share_partition_leader import PartitionRecords
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareFetchRequest, ShareFetchResponse
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
)

_BATCH_OPTIMIZED, _RECORD_LIMIT = 0, 1
_LOCK_MS = "share.record.lock.duration.ms"


async def handle(request: ShareFetchRequest, call: Call) -> ShareFetchResponse:
    shares = call.broker.shares
    requested = {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }
    group, member = str(request.group_id), str(request.member_id)
    call.require(Operation.READ, AclResource.GROUP, group)
    _check(request, requested)
    session = shares.session_for((group, member), request.share_session_epoch, call.connection)
    acks = {each: batches for each, batches in requested.items() if batches}
    outcomes = settle(call, group, member, acks, request.is_renew_ack)
    if request.share_session_epoch == CLOSE:
        shares.end(session, call.node)
        found: RecordsByPartition = {}
    else:
        _change(session, request, requested)
        if request.share_acquire_mode not in (_BATCH_OPTIMIZED, _RECORD_LIMIT):
            raise RequestError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown acquire mode {request.share_acquire_mode}"
            )
        try:
            found = await ShareFetching(call, session, _parameters(request)).run()
        except RequestError as refusal:
            lock_ms = call.broker.configs.group_number(group, _LOCK_MS)
            return ShareFetchResponse(
                error_code=refusal.code,
                error_message=refusal.message,
                acquisition_lock_timeout_ms=lock_ms,
            )
        _check_topics(session, call)
    return _response(call, session, outcomes, found)


def _check(request: ShareFetchRequest, requested: Mapping[TopicIdPartition, Batches]) -> None:
    if request.group_id is None or not request.member_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "group id and member id must be set")
    if request.share_session_epoch == OPEN and any(requested.values()):
        raise RequestError(
            ErrorCode.INVALID_REQUEST, "the first request of a session must not acknowledge records"
        )
    limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
    if request.is_renew_ack and any(limits):
        raise RequestError(ErrorCode.INVALID_REQUEST, "a request that renews locks must not fetch records")


def _change(
    session: ShareSession, request: ShareFetchRequest, requested: Mapping[TopicIdPartition, Batches]
) -> None:
    forgotten = [
        (topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
    ]
    session.change(requested, forgotten)


def _check_topics(session: ShareSession, call: Call) -> None:
    """Before 4.4: raises RequestError for the whole session if it has an unknown topic.

    As in these releases, the session continues, and records stay acquired, though no response contains them.
    """
    if call.broker.profile.since_4_4:
        return
    if any(call.broker.cluster.find(topic_id) is None for topic_id, _ in session.partitions):
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, "the share session contains an unknown topic")


def _parameters(request: ShareFetchRequest) -> FetchParameters:
    return FetchParameters(
        request.max_records,
        request.batch_size,
        request.share_acquire_mode == _RECORD_LIMIT,
        request.min_bytes,
        request.max_bytes,
        request.max_wait_ms,
    )


def _response(
    call: Call,
    session: ShareSession,
    outcomes: dict[TopicIdPartition, RequestError | None],
    found: RecordsByPartition,
) -> ShareFetchResponse:
    lock_ms = call.broker.configs.group_number(session.group, _LOCK_MS)
    response = ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms)
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    leaders = NewLeaders(call.broker.cluster)
    for topic_partition in dict.fromkeys((*found, *outcomes)):
        result = found.get(topic_partition)
        is_new = session.partitions.get(topic_partition, False) and result is not None
        if not _has_content(result) and topic_partition not in outcomes and not is_new:
            continue
        if topic_partition in session.partitions:
            session.partitions[topic_partition] = isinstance(result, RequestError)
        data = _partition(topic_partition[1], result, outcomes.get(topic_partition))
        for refusal in (result, outcomes.get(topic_partition)):
            if isinstance(refusal, RequestError) and refusal.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                data.current_leader = LeaderIdAndEpoch(*leaders.find(*topic_partition))
        topic = topics.setdefault(topic_partition[0], ShareFetchableTopicResponse(topic_partition[0]))
        topic.partitions.append(data)
    response.responses = list(topics.values())
    response.node_endpoints = leaders.endpoints(NodeEndpoint)
    return response


def _has_content(result: PartitionRecords | RequestError | None) -> bool:
    return isinstance(result, RequestError) or (result is not None and bool(result.acquired))


def _partition(
    index: int, result: PartitionRecords | RequestError | None, ack: RequestError | None
) -> PartitionData:
    data = PartitionData(index, records=b"")
    if ack is not None:
        data.acknowledge_error_code, data.acknowledge_error_message = ack.code, ack.message
    if isinstance(result, RequestError):
        data.error_code, data.error_message = result.code, result.message
    elif result is not None and result.acquired:
        data.records = b"".join(batch.data for batch in result.batches)
        data.acquired_records = [
            AcquiredRecords(each.first, each.last, each.count) for each in result.acquired
        ]
    return data
