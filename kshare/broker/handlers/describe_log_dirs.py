"""DescribeLogDirs v1-5: how many bytes the logs of partitions have. A node has one directory.

v1: the first supported version.
v2: flexible, with compact lengths and tagged fields.
v3: the response adds ErrorCode.
v4: the response adds TotalBytes and UsableBytes, which stay unknown here.
v5: the response adds IsCordoned. Since Kafka 4.4.
"""

from __future__ import annotations

from kshare.broker.authorizer import CLUSTER_NAME, AclResource, Operation
from kshare.broker.connection import Call
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from kshare.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_DIRECTORY = "/kshare"


async def handle(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    if not call.is_authorized(Operation.DESCRIBE, AclResource.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in call.broker.cluster.partitions():
        name = partition.topic.name
        if partition.leader == call.node.id and (wanted is None or (name, partition.index) in wanted):
            rows = topics.setdefault(name, DescribeLogDirsTopic(name)).partitions
            rows.append(DescribeLogDirsPartition(partition.index, partition.log.size))
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(0, _DIRECTORY, list(topics.values()))])
