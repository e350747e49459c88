"""DeleteGroups v0-3: deletes empty groups of any kind. Their configs are kept.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: flexible, with compact lengths and tagged fields.
v3: the response adds ErrorMessage. Since Kafka 4.4.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse
from kshare.protocol.messages.delete_groups_response import DeletableGroupResult


async def handle(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_delete(name, call) for name in request.groups_names])


def _delete(group_id: str, call: Call) -> DeletableGroupResult:
    if not call.coordinates_group(group_id):
        return DeletableGroupResult(group_id, ErrorCode.NOT_COORDINATOR)
    kind = call.broker.groups.kind_of(group_id)
    if kind is None:
        return DeletableGroupResult(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    try:
        kind.delete(group_id)
    except RequestError as refusal:
        return DeletableGroupResult(group_id, refusal.code, refusal.message)
    return DeletableGroupResult(group_id)
