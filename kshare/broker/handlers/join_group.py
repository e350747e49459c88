"""JoinGroup v0-9: joins a classic group. Waits until all members have joined.

v0: the first version.
v1: the request adds RebalanceTimeoutMs.
v2: the response adds ThrottleTimeMs.
v3: when a quota is exceeded, the response is sent before throttling.
v4: a member without an id gets one, and must join again with it.
v5: the request adds GroupInstanceId; the response adds GroupInstanceId.
v6: flexible, with compact lengths and tagged fields.
v7: the response adds ProtocolType and lets ProtocolName be null.
v8: the request adds Reason.
v9: the response adds SkipAssignment.
"""

from __future__ import annotations

from kshare.broker.classic_groups.coordinator import JoinParameters, MemberIdRequired
from kshare.broker.classic_groups.group import JoinResult
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import JoinGroupRequest, JoinGroupResponse
from kshare.protocol.messages.join_group_response import JoinGroupResponseMember

_KNOWN_ID_SINCE = 4
_SKIP_SINCE = 9
_LONGEST_WAIT_MS = 30 * 60 * 1000


async def handle(request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    groups = call.broker.classic_groups
    parameters = JoinParameters(
        request.member_id,
        request.group_instance_id,
        call.client_id or "",
        call.connection.peer,
        request.session_timeout_ms,
        request.rebalance_timeout_ms if call.version >= 1 else request.session_timeout_ms,
        request.protocol_type,
        {protocol.name: bytes(protocol.metadata) for protocol in request.protocols},
        call.version >= _KNOWN_ID_SINCE,
        call.version >= _SKIP_SINCE,
    )
    try:
        call.require_group_coordinator(request.group_id)
        group, member = groups.join(request.group_id, parameters)
    except MemberIdRequired as required:
        return _refused(required, required.member_id)
    except RequestError as refusal:
        return _refused(refusal, request.member_id)
    deadline = call.now + _LONGEST_WAIT_MS
    while (result := member.result) is None:
        try:
            group.member(member.id, member.instance)
        except RequestError as gone:
            return _refused(gone, member.id)
        if not await call.wait([group.changed], deadline):
            # The client has disconnected. Its session times out unless it joins again.
            return _refused(RequestError(ErrorCode.REBALANCE_IN_PROGRESS), member.id)
    return _joined(result, member.id, group.protocol_type)


def _joined(result: JoinResult, member_id: str, protocol_type: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=result.generation,
        protocol_type=protocol_type,
        protocol_name=result.protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=member_id,
        members=[JoinGroupResponseMember(*each) for each in result.members],
    )


def _refused(refusal: RequestError, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=refusal.code, protocol_name="", member_id=member_id)
