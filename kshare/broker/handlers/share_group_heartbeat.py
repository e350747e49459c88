"""ShareGroupHeartbeat v1: joins with epoch 0, leaves with -1, stays with the current epoch.

v1: the first supported version; v0 was for early access in Kafka 4.0.
"""

from __future__ import annotations

from kshare.broker.assigned_groups import by_topic
from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.share_groups.share_group import JOIN, LEAVE, Heartbeat
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kshare.protocol.messages.share_group_heartbeat_response import Assignment, TopicPartitions

WITHOUT_TEXT = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
"""As in Kafka, these errors have no message."""
_INTERVAL = "share.heartbeat.interval.ms"


async def handle(request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    try:
        return _response(request, call)
    except RequestError as refusal:
        text = None if refusal.code in WITHOUT_TEXT else refusal.message
        return ShareGroupHeartbeatResponse(error_code=refusal.code, error_message=text)


def _response(request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    call.require(Operation.READ, AclResource.GROUP, request.group_id)
    for name in request.subscribed_topic_names or []:
        call.require(Operation.DESCRIBE, AclResource.TOPIC, name)
    _check(request)
    call.require_group_coordinator(request.group_id)
    heartbeat_request = Heartbeat(
        request.member_id,
        request.member_epoch,
        request.subscribed_topic_names,
        request.rack_id,
        call.client_id or "",
        call.connection.peer,
    )
    response = call.broker.share_groups.heartbeat(request.group_id, heartbeat_request)
    is_gone = response.epoch == LEAVE
    assignment = None
    if response.assigned is not None:
        assignment = Assignment([TopicPartitions(*row) for row in by_topic(response.assigned).items()])
    return ShareGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=response.epoch,
        heartbeat_interval_ms=0 if is_gone else call.broker.configs.group_number(request.group_id, _INTERVAL),
        assignment=assignment,
    )


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Raises RequestError with Kafka's messages."""
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if not request.member_id.strip():
        raise _invalid("MemberId can't be empty." if request.member_id else None)
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE:
        raise _invalid("MemberEpoch is invalid.")


def _invalid(reason: str | None) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, reason)
