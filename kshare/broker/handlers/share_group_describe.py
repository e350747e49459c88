"""ShareGroupDescribe v1: the state and epochs of groups, and the assignments of their members.

v1: the first supported version; v0 was for early access in Kafka 4.0.
"""

from __future__ import annotations

from kshare.broker.assigned_groups import by_topic
from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.share_groups.share_group import ShareMember as GroupMember
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kshare.protocol.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_ASSIGNOR = "simple"
TEXTS = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: None,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "The group has described topic(s) that the client is not authorized to describe."
    ),
}
"""Kafka's messages, where they differ from those in other responses."""


async def handle(request: ShareGroupDescribeRequest, call: Call) -> ShareGroupDescribeResponse:
    response = ShareGroupDescribeResponse(
        groups=[_described(group_id, call) for group_id in request.group_ids]
    )
    if request.include_authorized_operations:
        call.tell_group_operations(response.groups)
    return response


def _described(group_id: str, call: Call) -> DescribedGroup:
    try:
        call.require(Operation.DESCRIBE, AclResource.GROUP, group_id)
        if not group_id:
            raise RequestError(ErrorCode.INVALID_GROUP_ID)
        call.require_group_coordinator(group_id)
        group = call.broker.share_groups.find(group_id)
        for name in {name for member in group.members.values() for name in member.topics}:
            call.require(Operation.DESCRIBE, AclResource.TOPIC, name)
    except RequestError as refusal:
        return DescribedGroup(refusal.code, TEXTS.get(refusal.code, refusal.message), group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=_ASSIGNOR,
        members=[_member(member, call) for member in group.members.values()],
    )


def _member(member: GroupMember, call: Call) -> Member:
    return Member(
        member.id,
        member.rack,
        member.epoch,
        member.client_id,
        f"/{member.host}",  # as Java formats an address without a host name
        member.topics,
        _assigned(member, call),
    )


def _assigned(member: GroupMember, call: Call) -> Assignment:
    return Assignment(
        [
            TopicPartitions(topic_id, topic.name, indexes)
            for topic_id, indexes in by_topic(member.assigned).items()
            if (topic := call.broker.cluster.find(topic_id)) is not None
        ]
    )
