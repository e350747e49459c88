"""DescribeGroups v0-6: classic groups.

v0: the first version.
v1: the response adds ThrottleTimeMs.
v2: when a quota is exceeded, the response is sent before throttling.
v3: the request adds IncludeAuthorizedOperations; the response adds AuthorizedOperations.
v4: the response adds GroupInstanceId.
v5: flexible, with compact lengths and tagged fields.
v6: a missing group is GROUP_ID_NOT_FOUND; the response adds ErrorMessage.
"""

from __future__ import annotations

from kshare.broker.classic_groups.group import GroupState
from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeGroupsRequest, DescribeGroupsResponse
from kshare.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember

_NOT_FOUND_SINCE = 6


async def handle(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    response = DescribeGroupsResponse(groups=[_describe(group_id, call) for group_id in request.groups])
    if request.include_authorized_operations:
        call.tell_group_operations(response.groups)
    return response


def _describe(group_id: str, call: Call) -> DescribedGroup:
    if not call.coordinates_group(group_id):
        return DescribedGroup(ErrorCode.NOT_COORDINATOR, group_id=group_id)
    group = call.broker.classic_groups.describe(group_id)
    if group.state is GroupState.DEAD:
        if call.version >= _NOT_FOUND_SINCE:
            is_other = call.broker.groups.kind_of(group_id) is not None
            reason = f"Group {group_id} {'is not a classic group' if is_other else 'not found'}."
            return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, reason, group_id, group.state)
        return DescribedGroup(group_id=group_id, group_state=group.state)
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol if is_stable else "",
        members=[
            DescribedGroupMember(
                each.id,
                each.instance,
                each.client_id,
                f"/{each.host}",
                each.protocols.get(group.protocol, b"") if is_stable else b"",
                each.assignment,
            )
            for each in group.members.values()
        ],
    )
