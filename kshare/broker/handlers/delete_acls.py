"""DeleteAcls v1-3: deletes all rules that match a filter.

v1: the first supported version: prefixed patterns.
v2: flexible, with compact lengths and tagged fields.
v3: resources of type user.
"""

from __future__ import annotations

from dataclasses import astuple

from kshare.broker.authorizer import AclFilter
from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DeleteAclsRequest, DeleteAclsResponse
from kshare.protocol.messages.delete_acls_request import DeleteAclsFilter
from kshare.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsMatchingAcl


async def handle(request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    if not call.broker.authorizer.is_enforced:
        refusal = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        return DeleteAclsResponse(filter_results=[refusal for _ in request.filters])
    return DeleteAclsResponse(filter_results=[_delete(chosen, call) for chosen in request.filters])


def _delete(requested: DeleteAclsFilter, call: Call) -> DeleteAclsFilterResult:
    removed = call.broker.authorizer.remove(AclFilter.of(requested))
    rows = [DeleteAclsMatchingAcl(0, None, *astuple(rule)) for rule in removed]
    return DeleteAclsFilterResult(error_message=None, matching_acls=rows)
