"""SyncGroup v0-5: the leader sends the assignments; the other members wait for them.

v0: the first version.
v1: the response adds ThrottleTimeMs.
v2: when a quota is exceeded, the response is sent before throttling.
v3: the request adds GroupInstanceId.
v4: flexible, with compact lengths and tagged fields.
v5: the request adds ProtocolType and ProtocolName; the response adds ProtocolType and ProtocolName.
"""

from __future__ import annotations

from kshare.broker.classic_groups.group import GroupState, check_group_id
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_SINCE = 5


async def handle(request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
    groups = call.broker.classic_groups
    check_group_id(request.group_id)
    call.require_group_coordinator(request.group_id)
    group = groups.find(request.group_id)
    member = group.member(request.member_id, request.group_instance_id)
    for requested, current in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol),
    ):
        if requested != current and (requested is not None or call.version >= _PROTOCOL_SINCE):
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group.check_generation(request.generation_id)
    groups.keep_alive(group, member)
    group.sync(member, {each.member_id: bytes(each.assignment) for each in request.assignments})
    deadline = call.now + group.rebalance_timeout_ms  # later than the end of a leader that doesn't assign
    while group.state is GroupState.COMPLETING and await call.wait([group.changed], deadline):
        group.member(request.member_id, request.group_instance_id)
    if group.state is not GroupState.STABLE:
        raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.check_generation(request.generation_id)
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
