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
from kshare.broker.connection import Call
from kshare.broker.consumer_groups.assignors import TopicIdPartition
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
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
        partitions = _partitions(request, call)
        call.broker.consumer_groups.check_commit(request.group_id, member_id, epoch, partitions, call.version)
        return
    if epoch >= 0 and call.version >= _FOR_MEMBERS_SINCE and not call.broker.groups.kind_of(request.group_id):
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND)
    call.broker.classic_groups.check_commit(request.group_id, member_id, epoch, request.group_instance_id)


def _partitions(request: OffsetCommitRequest, call: Call) -> list[TopicIdPartition]:
    found = []
    for topic in request.topics:
        known = call.broker.cluster.find(topic.topic_id if call.version >= _BY_ID_SINCE else topic.name)
        topic_id = known.id if known is not None else topic.topic_id
        found += [(topic_id, each.partition_index) for each in topic.partitions]
    return found


def _commit(
    group_id: str, topic: OffsetCommitRequestTopic, error: ErrorCode, call: Call
) -> OffsetCommitResponseTopic:
    found = call.broker.cluster.find(topic.topic_id if call.version >= _BY_ID_SINCE else topic.name)
    result = OffsetCommitResponseTopic(topic.name, topic.topic_id)
    for each in topic.partitions:
        code = error
        if not code and found is None:
            code = (
                ErrorCode.UNKNOWN_TOPIC_ID
                if call.version >= _BY_ID_SINCE
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        elif not code and found is not None:
            if not 0 <= each.partition_index < len(found.partitions):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                offset = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.committed_metadata or ""
                )
                call.broker.classic_groups.offsets.commit(
                    group_id, (found.name, each.partition_index), offset
                )
        result.partitions.append(OffsetCommitResponsePartition(each.partition_index, code))
    return result
