"""CreateAcls v1-3: creates rules, which take effect at once.

v1: the first supported version: prefixed patterns.
v2: flexible, with compact lengths and tagged fields.
v3: resources of type user.
"""

from __future__ import annotations

from kshare.broker.authorizer import AclRule
from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreateAclsRequest, CreateAclsResponse
from kshare.protocol.messages.create_acls_request import AclCreation
from kshare.protocol.messages.create_acls_response import AclCreationResult


async def handle(request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    if not call.broker.authorizer.is_enforced:
        refusal = AclCreationResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        return CreateAclsResponse(results=[refusal for _ in request.creations])
    return CreateAclsResponse(results=[_create(wanted, call) for wanted in request.creations])


def _create(wanted: AclCreation, call: Call) -> AclCreationResult:
    rule = AclRule(
        wanted.resource_type,
        wanted.resource_name,
        wanted.resource_pattern_type,
        wanted.principal,
        wanted.host,
        wanted.operation,
        wanted.permission_type,
    )
    if not rule.is_sound:
        return AclCreationResult(ErrorCode.INVALID_REQUEST, "invalid ACL")
    call.broker.authorizer.add(rule)
    return AclCreationResult(error_message=None)
