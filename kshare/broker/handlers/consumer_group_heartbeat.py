"""ConsumerGroupHeartbeat v0-1: joins with epoch 0, leaves with -1, or -2 to return, stays with the current epoch.

v0: the first version.
v1: the request adds SubscribedTopicRegex; clients choose their member ids.
"""

from __future__ import annotations

from kshare.broker.assigned_groups import by_topic
from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.cluster import TopicIdPartition
from kshare.broker.connection import Call
from kshare.broker.consumer_groups.consumer_group import JOIN_EPOCH, LEAVE_FOR_NOW, ConsumerHeartbeat
from kshare.broker.handlers.share_group_heartbeat import WITHOUT_TEXT
from kshare.broker.request_error import RequestError
from kshare.broker.settings import listed
from kshare.broker.start_checks import REBALANCE_PROTOCOLS
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.json_form import uuid_text
from kshare.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kshare.protocol.messages.consumer_group_heartbeat_request import TopicPartitions as OwnedPartitions
from kshare.protocol.messages.consumer_group_heartbeat_response import Assignment, TopicPartitions

_INTERVAL = "consumer.heartbeat.interval.ms"
_CLIENTS_CHOOSE_IDS_SINCE = 1


async def handle(request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerGroupHeartbeatResponse:
    try:
        return _response(request, call)
    except RequestError as refusal:
        text = None if refusal.code in WITHOUT_TEXT else refusal.message
        return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=text)


def require_protocol(call: Call) -> None:
    """Raises RequestError if the brokers' settings disable this protocol. The protocol `share` has no such switch."""
    if "consumer" not in listed(call.broker.configs.broker(REBALANCE_PROTOCOLS)):
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION)


def _response(request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerGroupHeartbeatResponse:
    require_protocol(call)
    call.require(Operation.READ, AclResource.GROUP, request.group_id)
    for name in request.subscribed_topic_names or []:
        call.require(Operation.DESCRIBE, AclResource.TOPIC, name)
    _check(request, call.version)
    call.require_group_coordinator(request.group_id)
    groups = call.broker.consumer_groups
    if request.member_epoch < JOIN_EPOCH:
        is_for_now = request.member_epoch == LEAVE_FOR_NOW
        groups.leave(request.group_id, request.member_id, request.instance_id, for_now=is_for_now)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    heartbeat = _heartbeat(request, call)
    result = groups.heartbeat(request.group_id, heartbeat)
    assignment = None
    if result.assigned is not None:
        assignment = Assignment([TopicPartitions(*row) for row in by_topic(result.assigned).items()])
    return ConsumerGroupHeartbeatResponse(
        member_id=heartbeat.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=call.broker.configs.group_number(request.group_id, _INTERVAL),
        assignment=assignment,
    )


def _check(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raises RequestError with Kafka's messages."""
    must_have_id = version >= _CLIENTS_CHOOSE_IDS_SINCE or request.member_epoch != JOIN_EPOCH
    if must_have_id and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_joining(request)
    elif request.member_epoch == LEAVE_FOR_NOW and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_FOR_NOW:
        raise _invalid("MemberEpoch is invalid.")


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _invalid(reason: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, reason)


def _heartbeat(request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerHeartbeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        request.member_id or uuid_text(call.broker.new_uuid()),
        request.member_epoch,
        call.client_id or "",
        call.connection.peer,
        request.instance_id,
        request.rack_id,
        None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        None if names is None else frozenset(names),
        request.subscribed_topic_regex,
        request.server_assignor,
        None if owned is None else _owned(owned),
        lambda name: call.is_authorized(Operation.DESCRIBE, AclResource.TOPIC, name),
    )


def _owned(rows: list[OwnedPartitions]) -> frozenset[TopicIdPartition]:
    return frozenset((row.topic_id, index) for row in rows for index in row.partitions)
