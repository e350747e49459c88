"""ListConfigResources v0-1: resources that can have their own configs.

v0: the first version.
v1: the request adds ResourceTypes; the response adds ResourceType.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.settings import Resource
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ListConfigResourcesRequest, ListConfigResourcesResponse
from kshare.protocol.messages.list_config_resources_response import ConfigResource

_LISTABLE = (Resource.TOPIC, Resource.BROKER, Resource.BROKER_LOGGER, Resource.CLIENT_METRICS, Resource.GROUP)


async def handle(request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    requested = set(request.resource_types) if call.version >= 1 else {Resource.CLIENT_METRICS}
    if not requested <= set(_LISTABLE):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    cluster, configs = call.broker.cluster, call.broker.configs
    names = {
        Resource.TOPIC: list(cluster.topics),
        Resource.BROKER: [str(node) for node in cluster.nodes],
        Resource.BROKER_LOGGER: [str(node) for node in cluster.nodes],
        Resource.CLIENT_METRICS: configs.configured(Resource.CLIENT_METRICS),
        Resource.GROUP: configs.configured(Resource.GROUP),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(name, kind)
            for kind in _LISTABLE
            if not requested or kind in requested
            for name in names[kind]
        ]
    )
