"""DescribeCluster v0-2: the nodes that are up.

v0: the first version.
v1: the request adds EndpointType; the response adds EndpointType.
v2: the request adds IncludeFencedBrokers; the response adds IsFenced.
"""

from __future__ import annotations

from kshare.broker.authorizer import CLUSTER_NAME, AclResource, Operation
from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeClusterRequest, DescribeClusterResponse
from kshare.protocol.messages.describe_cluster_response import DescribeClusterBroker

_BROKERS = 1


async def handle(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if call.version >= 1 and request.endpoint_type != _BROKERS:
        reason = "this listener is for clients, not for controllers"
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=reason,
            endpoint_type=request.endpoint_type,
        )
    cluster = call.broker.cluster
    response = DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller.id,
        brokers=[
            DescribeClusterBroker(node.id, node.host, node.port, node.rack, not node.is_up)
            for node in cluster.nodes.values()
            if node.is_up or request.include_fenced_brokers
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations_on_cluster(call)
    return response


def operations_on_cluster(call: Call) -> int:
    """A bit field. Kafka shows none to those who may not describe the cluster."""
    if not call.is_authorized(Operation.DESCRIBE, AclResource.CLUSTER, CLUSTER_NAME):
        return 0
    return call.authorized_operations(AclResource.CLUSTER, CLUSTER_NAME)
