"""AlterConfigs v0-2: replaces all settings of a topic or a group. For old clients.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: flexible, with compact lengths and tagged fields.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import AlterConfigsRequest, AlterConfigsResponse
from kshare.protocol.messages.alter_configs_request import AlterConfigsResource
from kshare.protocol.messages.alter_configs_response import AlterConfigsResourceResponse


async def handle(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[_alter(each, request.validate_only, call) for each in request.resources]
    )


def _alter(wanted: AlterConfigsResource, validate_only: bool, call: Call) -> AlterConfigsResourceResponse:
    name = wanted.resource_name
    values = {each.name: each.value for each in wanted.configs if each.value is not None}
    try:
        if wanted.resource_type not in (Resource.TOPIC, Resource.GROUP) or not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "AlterConfigs supports only topics and groups")
        resource = Resource(wanted.resource_type)
        if resource is Resource.TOPIC and call.broker.cluster.find(name) is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        call.broker.configs.replace(resource, name, values, validate_only=validate_only)
    except RequestError as refusal:
        return AlterConfigsResourceResponse(refusal.code, refusal.message, wanted.resource_type, name)
    return AlterConfigsResourceResponse(resource_type=wanted.resource_type, resource_name=name)
