"""IncrementalAlterConfigs v0-1: changes configs of topics, groups and others. Atomic for each resource.

v0: the first version.
v1: flexible, with compact lengths and tagged fields.
"""

from __future__ import annotations

from kshare.broker.configs import Configs, extended
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kshare.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kshare.protocol.messages.incremental_alter_configs_response import AlterConfigsResourceResponse

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


async def handle(request: IncrementalAlterConfigsRequest, call: Call) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[_alter(each, request.validate_only, call) for each in request.resources]
    )


def _alter(wanted: AlterConfigsResource, validate_only: bool, call: Call) -> AlterConfigsResourceResponse:
    configs, about = call.broker.configs, (wanted.resource_type, wanted.resource_name)
    try:
        resource, name = _target(wanted, call)
        values = _changed(configs, resource, name, wanted.configs)
        configs.replace(resource, name, values, validate_only=validate_only)
    except RequestError as refusal:
        return AlterConfigsResourceResponse(refusal.code, refusal.message, *about)
    return AlterConfigsResourceResponse(ErrorCode.NONE, "", *about)


def _target(wanted: AlterConfigsResource, call: Call) -> tuple[Resource, str]:
    name = wanted.resource_name
    if wanted.resource_type == Resource.TOPIC:
        if call.broker.cluster.find(name) is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic doesn't exist.")
        return Resource.TOPIC, name
    if wanted.resource_type == Resource.GROUP:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return Resource.GROUP, name
    if wanted.resource_type == Resource.CLIENT_METRICS:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        return Resource.CLIENT_METRICS, name
    if wanted.resource_type == Resource.BROKER:
        # The nodes of an embedded cluster share their settings.
        return Resource.BROKER, ""
    raise RequestError(ErrorCode.INVALID_REQUEST, f"Can't configure resources of type {wanted.resource_type}")


def _changed(configs: Configs, resource: Resource, of: str, changes: list[AlterableConfig]) -> dict[str, str]:
    values = configs.of(resource, of)
    if len({each.name for each in changes}) != len(changes):
        raise RequestError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for change in changes:
        setting = configs.setting(resource, change.name)
        if change.config_operation == _DELETE:
            values.pop(change.name, None)
            continue
        if change.value is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
        if change.config_operation == _SET:
            values[change.name] = change.value
        elif change.config_operation in (_APPEND, _SUBTRACT):
            current = values.get(change.name, configs.default(setting))
            is_append = change.config_operation == _APPEND
            values[change.name] = extended(resource, setting, current, change.value, is_append)
        else:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown operation {change.config_operation}")
    return values
