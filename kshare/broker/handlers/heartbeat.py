"""Heartbeat v0-4 of classic groups: keeps the session alive, and returns whether to join again.

v0: the first version.
v1: the response adds ThrottleTimeMs.
v2: when a quota is exceeded, the response is sent before throttling.
v3: the request adds GroupInstanceId.
v4: flexible, with compact lengths and tagged fields.
"""

from __future__ import annotations

from kshare.broker.classic_groups.group import GroupState, check_group_id
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import HeartbeatRequest, HeartbeatResponse


async def handle(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    groups = call.broker.classic_groups
    check_group_id(request.group_id)
    call.require_group_coordinator(request.group_id)
    group = groups.find(request.group_id)
    member = group.member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    groups.keep_alive(group, member)
    if group.state is GroupState.PREPARING:
        raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatResponse()
