"""DescribeShareGroupOffsets v0-1: the stored start offsets, and (v1) the lag.

v0: the first version.
v1: the response adds Lag. Since Kafka 4.2.
"""

from __future__ import annotations

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.share_state.share_state import UNKNOWN_START, ShareState
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from kshare.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequestGroup as AskedGroup,
)
from kshare.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseGroup as Group,
)
from kshare.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponsePartition as Row,
)
from kshare.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseTopic as Topic,
)

_REFUSED = "Topic authorization failed."


async def handle(request: DescribeShareGroupOffsetsRequest, call: Call) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_described(group, call) for group in request.groups])


def _described(requested: AskedGroup, call: Call) -> Group:
    try:
        call.require(Operation.DESCRIBE, AclResource.GROUP, requested.group_id)
        if not requested.group_id and requested.topics is not None:
            reason = "The server experienced an unexpected error when processing the request."
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
        call.require_group_coordinator(requested.group_id)
    except RequestError as refusal:
        # Kafka omits the message of this error here.
        text = None if refusal.code == ErrorCode.GROUP_AUTHORIZATION_FAILED else refusal.message
        return Group(requested.group_id, error_code=refusal.code, error_message=text)
    if requested.topics is None:
        return Group(requested.group_id, _all_topics(requested.group_id, call))
    topics = [
        _topic(requested.group_id, topic.topic_name, topic.partitions, call) for topic in requested.topics
    ]
    return Group(requested.group_id, topics)


def _all_topics(group_id: str, call: Call) -> list[Topic]:
    """All topics of the group. Empty if the group doesn't exist."""
    groups = call.broker.share_groups
    if not groups.has(group_id):
        return []
    names = {
        topic.name: sorted(indexes)
        for topic_id, indexes in groups.find(group_id).ready.items()
        if (topic := call.broker.cluster.find(topic_id)) is not None
        and call.is_authorized(Operation.DESCRIBE, AclResource.TOPIC, topic.name)
    }
    return [_topic(group_id, name, indexes, call) for name, indexes in sorted(names.items())]


def _topic(group_id: str, name: str, indexes: list[int], call: Call) -> Topic:
    if not call.is_authorized(Operation.DESCRIBE, AclResource.TOPIC, name):
        return Topic(
            name,
            partitions=[
                Row(index, -1, error_code=AclResource.TOPIC.refusal, error_message=_REFUSED)
                for index in indexes
            ],
        )
    topic = call.broker.cluster.find(name)
    if topic is None:
        return Topic(name, partitions=[Row(index, UNKNOWN_START) for index in indexes])
    return Topic(name, topic.id, [_row(group_id, topic.id, index, call) for index in indexes])


def _row(group_id: str, topic_id: bytes, index: int, call: Call) -> Row:
    try:
        state = call.broker.share_states.summary((group_id, topic_id, index))
    except RequestError as refusal:
        return Row(index, UNKNOWN_START, error_code=refusal.code, error_message=refusal.message)
    return Row(index, state.start, state.leader_epoch, _lag(state, topic_id, index, call))


def _lag(state: ShareState, topic_id: bytes, index: int, call: Call) -> int:
    """-1 if the group has no start offset yet."""
    if state.start == UNKNOWN_START or state.settled < 0:
        return -1
    return call.broker.cluster.partition(topic_id, index).log.high_watermark - state.start - state.settled
