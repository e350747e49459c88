"""AlterShareGroupOffsets v0: sets start offsets of a group without members. Creates the group if necessary.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import NOT_HOSTED, RequestError
from kshare.broker.share_groups.share_group import ShareGroup
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kshare.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequestPartition as AskedRow,
)
from kshare.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponsePartition as Row,
)
from kshare.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponseTopic as Topic,
)


async def handle(request: AlterShareGroupOffsetsRequest, call: Call) -> AlterShareGroupOffsetsResponse:
    if not call.broker.profile.since_4_2:  # earlier brokers accepted the request and did nothing
        return AlterShareGroupOffsetsResponse()
    call.require(Operation.READ, AclResource.GROUP, request.group_id)
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    call.require_group_coordinator(request.group_id)
    group = _idle_group(request, call)
    return AlterShareGroupOffsetsResponse(
        responses=[_alter_topic(group, topic.topic_name, topic.partitions, call) for topic in request.topics]
    )


def _idle_group(request: AlterShareGroupOffsetsRequest, call: Call) -> ShareGroup | None:
    """The group. None if it doesn't exist, nor do any of the topics: then it isn't created."""
    groups = call.broker.share_groups
    if groups.has(request.group_id):
        group = groups.find(request.group_id)
        if group.members:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        return group
    groups.check_kind(request.group_id)
    if any(call.broker.cluster.find(topic.topic_name) for topic in request.topics):
        return groups.find_or_make(request.group_id)
    return None


def _alter_topic(group: ShareGroup | None, name: str, requested: list[AskedRow], call: Call) -> Topic:
    if not call.is_authorized(Operation.READ, AclResource.TOPIC, name):
        rows = [Row(row.partition_index, AclResource.TOPIC.refusal, "not allowed") for row in requested]
        return Topic(name, partitions=rows)
    topic = call.broker.cluster.find(name)
    if topic is None or group is None:
        rows = [
            Row(row.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED) for row in requested
        ]
        return Topic(name, partitions=rows)
    return Topic(name, topic.id, [_alter(group, topic.id, row, call) for row in requested])


def _alter(group: ShareGroup, topic_id: bytes, requested: AskedRow, call: Call) -> Row:
    index = requested.partition_index
    try:
        partition = call.broker.cluster.partition(topic_id, index)
        call.broker.share_groups.initialize(group, topic_id, index, requested.start_offset)
    except RequestError as refusal:
        return Row(index, refusal.code, refusal.message or NOT_HOSTED)
    call.broker.shares.reload(group.id, partition)
    return Row(index)
