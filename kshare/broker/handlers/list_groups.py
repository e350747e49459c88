"""ListGroups v0-5: groups of all kinds that this node coordinates.

v0: the first version.
v1: the response adds ThrottleTimeMs.
v2: when a quota is exceeded, the response is sent before throttling.
v3: flexible, with compact lengths and tagged fields.
v4: the request adds StatesFilter; the response adds GroupState.
v5: the request adds TypesFilter; the response adds GroupType.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.protocol.messages import ListGroupsRequest, ListGroupsResponse
from kshare.protocol.messages.list_groups_response import ListedGroup


async def handle(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    broker = call.broker
    states = {state.lower() for state in request.states_filter}
    kinds = {kind.lower() for kind in request.types_filter}
    return ListGroupsResponse(
        groups=[
            ListedGroup(group.group_id, group.protocol_type, group.state, group.kind)
            for group in broker.groups.listed()
            if (not states or group.state.lower() in states)
            and (not kinds or group.kind.lower() in kinds)
            and call.coordinates_group(group.group_id)
        ]
    )
