"""OffsetCommit v2-10: commits offsets of a classic group or a consumer group.

v2: the first supported version.
v3: the response adds ThrottleTimeMs.
v4: when a quota is exceeded, the response is sent before throttling.
v5: the request drops RetentionTimeMs.
v6: the request adds CommittedLeaderEpoch.
v7: the request adds GroupInstanceId.
v8: flexible, with compact lengths and tagged fields.
v9: also for the new consumer group protocol, with errors for member epochs.
v10: the request adds TopicId and drops Name; the response adds TopicId and drops Name.
"""

from __future__ import annotations

from kshare.broker.classic_groups.offsets import CommittedOffset
from kshare.broker.cluster import TopicIdPartition
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import OffsetCommitRequest, OffsetCommitResponse, TxnOffsetCommitRequest
from kshare.protocol.messages.offset_commit_request import OffsetCommitRequestTopic
from kshare.protocol.messages.offset_commit_response import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_FOR_MEMBERS_SINCE = 9
_BY_ID_SINCE = 10


async def handle(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    error = ErrorCode.NONE
    try:
        call.require_group_coordinator(request.group_id)
        _check(request, call)
    except RequestError as refusal:
        error = refusal.code
    return OffsetCommitResponse(
        topics=[_commit(request.group_id, topic, error, call) for topic in request.topics]
    )


def _check(request: OffsetCommitRequest, call: Call) -> None:
    """Raises RequestError if the client may not commit."""
    member_id, epoch = request.member_id, request.generation_id_or_member_epoch
    if call.broker.consumer_groups.has(request.group_id):
        partitions = named_partitions(request, call, call.version >= _BY_ID_SINCE)
        call.broker.consumer_groups.check_commit(request.group_id, member_id, epoch, partitions, call.version)
        return
    if epoch >= 0 and call.version >= _FOR_MEMBERS_SINCE and not call.broker.groups.kind_of(request.group_id):
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND)
    call.broker.classic_groups.check_commit(request.group_id, member_id, epoch, request.group_instance_id)


def named_partitions(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, call: Call, by_id: bool
) -> list[TopicIdPartition]:
    """The partitions for which a request commits offsets. Unknown topics are included."""
    found = []
    for topic in request.topics:
        known = call.broker.cluster.find(topic.topic_id if by_id else topic.name)
        topic_id = known.id if known is not None else topic.topic_id
        found += [(topic_id, each.partition_index) for each in topic.partitions]
    return found


def _commit(
    group_id: str, topic: OffsetCommitRequestTopic, error: ErrorCode, call: Call
) -> OffsetCommitResponseTopic:
    found = call.broker.cluster.find(topic.topic_id if call.version >= _BY_ID_SINCE else topic.name)
    offsets = call.broker.classic_groups.offsets
    result = OffsetCommitResponseTopic(topic.name, topic.topic_id)
    if found is None and not error:
        by_id = call.version >= _BY_ID_SINCE
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for each in topic.partitions:
        code, index = error, each.partition_index
        if not code and found is not None:
            if 0 <= index < len(found.partitions):
                offsets.commit(group_id, (found.name, index), CommittedOffset.of(each))
            else:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        result.partitions.append(OffsetCommitResponsePartition(index, code))
    return result
