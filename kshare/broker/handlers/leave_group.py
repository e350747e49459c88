"""LeaveGroup v0-5: removes one member, or several by member id or instance id.

v0: the first version.
v1: the response adds ThrottleTimeMs.
v2: when a quota is exceeded, the response is sent before throttling.
v3: the request adds Members and drops MemberId; the response adds Members.
v4: flexible, with compact lengths and tagged fields.
v5: the request adds Reason.
"""

from __future__ import annotations

from kshare.broker.classic_groups.group import check_group_id
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.messages import LeaveGroupRequest, LeaveGroupResponse
from kshare.protocol.messages.leave_group_request import MemberIdentity
from kshare.protocol.messages.leave_group_response import MemberResponse

_SEVERAL_SINCE = 3


async def handle(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    check_group_id(request.group_id)
    call.require_group_coordinator(request.group_id)
    if call.version < _SEVERAL_SINCE:
        left = _leave(request.group_id, MemberIdentity(request.member_id), call)
        return LeaveGroupResponse(error_code=left.error_code)
    return LeaveGroupResponse(members=[_leave(request.group_id, each, call) for each in request.members])


def _leave(group_id: str, identity: MemberIdentity, call: Call) -> MemberResponse:
    groups = call.broker.classic_groups
    result = MemberResponse(identity.member_id, identity.group_instance_id)
    try:
        group = groups.find(group_id)
        if identity.member_id in group.pending:
            groups.leave_pending(group, identity.member_id)
            return result
        by_instance = group.by_instance(identity.group_instance_id) if identity.group_instance_id else None
        if by_instance is not None and not identity.member_id:
            groups.leave(group, by_instance)
        else:
            groups.leave(group, group.member(identity.member_id, identity.group_instance_id))
    except RequestError as refusal:
        result.error_code = refusal.code
    return result
