"""DescribeConfigs v1-4: the configs of topics, groups, brokers and client metrics, with the source of each value.

v1: the first supported version: sources of values, and synonyms.
v2: when a quota is exceeded, the response is sent before throttling.
v3: the request adds IncludeDocumentation; the response adds ConfigType and Documentation.
v4: flexible, with compact lengths and tagged fields.
"""

from __future__ import annotations

from kshare.broker.config_entries import DescribedConfig, entries
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse
from kshare.protocol.messages.describe_configs_request import DescribeConfigsResource
from kshare.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


async def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(wanted, request.include_synonyms, call) for wanted in request.resources]
    )


def _describe(wanted: DescribeConfigsResource, with_synonyms: bool, call: Call) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None, resource_type=wanted.resource_type, resource_name=wanted.resource_name
    )
    try:
        resource = _resource(wanted, call)
    except RequestError as refusal:
        result.error_code, result.error_message = refusal.code, refusal.message
        return result
    if resource is None:
        return result
    keys = wanted.configuration_keys
    result.configs = [
        _shown(entry, with_synonyms)
        for entry in entries(call.broker.configs, resource, wanted.resource_name)
        if not keys or entry.name in keys
    ]
    return result


def _resource(wanted: DescribeConfigsResource, call: Call) -> Resource | None:
    """The resource; None if it has no settings in this broker."""
    name = wanted.resource_name
    if wanted.resource_type == Resource.TOPIC:
        if call.broker.cluster.find(name) is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Resource.TOPIC
    if wanted.resource_type == Resource.BROKER:
        if name and name != str(call.node.id):
            reason = f"Unexpected broker id, expected {call.node.id} or empty string, but received {name}"
            raise RequestError(ErrorCode.INVALID_REQUEST, reason)
        return Resource.BROKER
    if wanted.resource_type == Resource.GROUP:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return Resource.GROUP
    if wanted.resource_type == Resource.CLIENT_METRICS:
        if not name:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        return Resource.CLIENT_METRICS
    if wanted.resource_type == Resource.BROKER_LOGGER:
        return None
    raise RequestError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {wanted.resource_type}")


def _shown(entry: DescribedConfig, with_synonyms: bool) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(each.name, each.value, each.source) for each in entry.synonyms]
    return DescribeConfigsResourceResult(
        entry.name,
        entry.value,
        entry.read_only,
        entry.source,
        synonyms=synonyms if with_synonyms else [],
        config_type=entry.kind,
        documentation=None,
    )
