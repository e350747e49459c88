"""DescribeAcls v1-3: the rules that match a filter, by resource.

v1: the first supported version: prefixed patterns.
v2: flexible, with compact lengths and tagged fields.
v3: resources of type user.
"""

from __future__ import annotations

from kshare.broker.authorizer import AclFilter
from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeAclsRequest, DescribeAclsResponse
from kshare.protocol.messages.describe_acls_response import AclDescription, DescribeAclsResource


async def handle(request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    authorizer = call.broker.authorizer
    if not authorizer.is_enforced:
        return DescribeAclsResponse(0, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    found: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for rule in authorizer.chosen(AclFilter.of(request)):
        resource = rule.resource_type, rule.resource_name, rule.pattern_type
        acl = AclDescription(rule.principal, rule.host, rule.operation, rule.permission_type)
        found.setdefault(resource, DescribeAclsResource(*resource)).acls.append(acl)
    return DescribeAclsResponse(error_message=None, resources=list(found.values()))
