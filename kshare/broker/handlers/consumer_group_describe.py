"""ConsumerGroupDescribe v0-1: the state and epochs of groups, and what their members have and should have.

v0: the first version.
v1: the response adds MemberType.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshare.broker.assigned_groups import by_topic
from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.cluster import TopicIdPartition
from kshare.broker.connection import Call
from kshare.broker.consumer_groups.consumer_group import ConsumerGroup
from kshare.broker.consumer_groups.consumer_member import ConsumerMember
from kshare.broker.handlers.consumer_group_heartbeat import require_protocol
from kshare.broker.handlers.share_group_describe import TEXTS
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kshare.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_USES_CONSUMER_PROTOCOL = 1


async def handle(request: ConsumerGroupDescribeRequest, call: Call) -> ConsumerGroupDescribeResponse:
    response = ConsumerGroupDescribeResponse(
        groups=[_described(group_id, call) for group_id in request.group_ids]
    )
    if request.include_authorized_operations:
        call.tell_group_operations(response.groups)
    return response


def _described(group_id: str, call: Call) -> DescribedGroup:
    try:
        require_protocol(call)
        call.require(Operation.DESCRIBE, AclResource.GROUP, group_id)
        if not group_id:
            raise RequestError(ErrorCode.INVALID_GROUP_ID)
        call.require_group_coordinator(group_id)
        group = call.broker.consumer_groups.find(group_id)
        for name in group.topics:
            call.require(Operation.DESCRIBE, AclResource.TOPIC, name)
    except RequestError as refusal:
        return DescribedGroup(refusal.code, TEXTS.get(refusal.code, refusal.message), group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(group, member, call) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, call: Call) -> Member:
    has = member.held if group.behavior.describes_revoking else member.assigned
    return Member(
        member.id,
        member.instance,
        member.rack,
        member.epoch,
        member.client_id,
        f"/{member.host}",  # as Java formats an address without a host name
        sorted(member.topics),
        member.regex,
        _assignment(has, call),
        _assignment(group.target_of(member), call),
        _USES_CONSUMER_PROTOCOL,
    )


def _assignment(partitions: Iterable[TopicIdPartition], call: Call) -> Assignment:
    return Assignment(
        [
            TopicPartitions(topic_id, topic.name, indexes)
            for topic_id, indexes in by_topic(partitions).items()
            if (topic := call.broker.cluster.find(topic_id)) is not None
        ]
    )
