"""ShareAcknowledge v1-2: acknowledgements without a fetch. Can also renew locks (v2), or close the session.

v1: the first supported version; v0 was for early access in Kafka 4.0.
v2: acknowledgements can renew locks; the request adds IsRenewAck; the response adds AcquisitionLockTimeoutMs.
    Since Kafka 4.2.
"""

from __future__ import annotations

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.cluster import TopicIdPartition
from kshare.broker.connection import Call
from kshare.broker.new_leaders import NewLeaders
from kshare.broker.request_error import RequestError
from kshare.broker.shares.acknowledging import settle
from kshare.broker.shares.sessions import CLOSE, OPEN
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kshare.protocol.messages.share_acknowledge_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeTopicResponse,
)

_LOCK_MS = "share.record.lock.duration.ms"


async def handle(request: ShareAcknowledgeRequest, call: Call) -> ShareAcknowledgeResponse:
    call.require(Operation.READ, AclResource.GROUP, request.group_id or "")
    if request.group_id is None or not request.member_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "group id and member id must be set")
    if request.share_session_epoch == OPEN:
        raise RequestError(
            ErrorCode.INVALID_SHARE_SESSION_EPOCH, "ShareAcknowledge can't open a share session"
        )
    owner = request.group_id, request.member_id
    session = call.broker.shares.session_for(owner, request.share_session_epoch, call.connection)
    acknowledgements = {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }
    outcomes = settle(call, *owner, acknowledgements, request.is_renew_ack)
    if request.share_session_epoch == CLOSE:
        call.broker.shares.end(session, call.node)
    return _response(call, request.group_id, outcomes)


def _response(
    call: Call, group: str, outcomes: dict[TopicIdPartition, RequestError | None]
) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders = NewLeaders(call.broker.cluster)
    for (topic_id, index), refusal in outcomes.items():
        data = PartitionData(index)
        if refusal is not None:
            data.error_code, data.error_message = refusal.code, refusal.message
            if refusal.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                data.current_leader = LeaderIdAndEpoch(*leaders.find(topic_id, index))
        topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id)).partitions.append(data)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=call.broker.configs.group_number(group, _LOCK_MS),
        responses=list(topics.values()),
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )
