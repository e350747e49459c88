"""OffsetDelete v0: deletes committed offsets of an empty classic group, or of a consumer group.

Those of topics that members of a consumer group have subscribed to can't be deleted.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse
from kshare.protocol.messages.offset_delete_response import (
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    groups = call.broker.classic_groups
    consumers = call.broker.consumer_groups
    call.require_group_coordinator(request.group_id)
    subscribed: set[str] = set()
    if consumers.has(request.group_id):
        subscribed = consumers.find(request.group_id).topics
    elif not groups.has(request.group_id):
        return OffsetDeleteResponse(ErrorCode.GROUP_ID_NOT_FOUND)
    if groups.describe(request.group_id).members:
        return OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP)
    response = OffsetDeleteResponse()
    for topic in request.topics:
        indexes = [each.partition_index for each in topic.partitions]
        error = ErrorCode.NONE
        if call.broker.cluster.find(topic.name) is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif topic.name in subscribed:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            groups.offsets.forget(request.group_id, [(topic.name, index) for index in indexes])
        rows = [OffsetDeleteResponsePartition(index, error) for index in indexes]
        response.topics.append(OffsetDeleteResponseTopic(topic.name, rows))
    return response
