"""DeleteShareGroupOffsets v0: deletes the offsets of topics for a group without members.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import NOT_HOSTED, RequestError
from kshare.broker.share_groups.share_group import ShareGroup
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from kshare.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponseTopic as Row,
)


async def handle(request: DeleteShareGroupOffsetsRequest, call: Call) -> DeleteShareGroupOffsetsResponse:
    call.require(Operation.DELETE, AclResource.GROUP, request.group_id)
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    call.require_group_coordinator(request.group_id)
    group = call.broker.share_groups.find(request.group_id)
    if group.members:
        raise RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    rows = [_delete(group, topic.topic_name, call) for topic in request.topics]
    return DeleteShareGroupOffsetsResponse(responses=rows)


def _delete(group: ShareGroup, name: str, call: Call) -> Row:
    if not call.is_authorized(Operation.READ, AclResource.TOPIC, name):
        return Row(name, error_code=AclResource.TOPIC.refusal, error_message="not allowed")
    topic = call.broker.cluster.find(name)
    if topic is None or topic.id not in group.ready:
        reason = NOT_HOSTED if topic is None else "There is no offset information to delete."
        return Row(name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=reason)
    try:
        call.broker.share_groups.forget_partitions(group, topic)
    except RequestError as refusal:
        return Row(name, topic.id, refusal.code, refusal.message)
    for partition in topic.partitions:
        call.broker.shares.reload(group.id, partition)
    return Row(name, topic.id)
