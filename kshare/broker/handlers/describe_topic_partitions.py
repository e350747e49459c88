"""DescribeTopicPartitions v0: topics in pages, in the order of their names.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.authorizer import AclResource
from kshare.broker.cluster import Partition, Topic
from kshare.broker.connection import Call
from kshare.broker.handlers.metadata import partition_fields
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kshare.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_MOST = 2000


async def handle(request: DescribeTopicPartitionsRequest, call: Call) -> DescribeTopicPartitionsResponse:
    cluster, cursor = call.broker.cluster, request.cursor
    names = sorted({topic.name for topic in request.topics} or cluster.topics)
    first = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        first = cursor.partition_index if names and names[0] == cursor.topic_name else 0
    remaining = min(max(request.response_partition_limit, 1), _MOST)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = cluster.find(name)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response.topics.append(DescribeTopicPartitionsResponseTopic(error, name))
            continue
        if not remaining:
            response.next_cursor = Cursor(name, 0)
            break
        shown = topic.partitions[first : first + remaining]
        described = _describe(topic, shown)
        described.topic_authorized_operations = call.authorized_operations(AclResource.TOPIC, name)
        response.topics.append(described)
        remaining -= len(shown)
        if first + len(shown) < len(topic.partitions):
            response.next_cursor = Cursor(name, first + len(shown))
            break
        first = 0
    return response


def _describe(topic: Topic, shown: list[Partition]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        0,
        topic.name,
        topic.id,
        topic.is_internal,
        [
            # The Java client treats null as an error.
            DescribeTopicPartitionsResponsePartition(
                *partition_fields(partition), eligible_leader_replicas=[], last_known_elr=[]
            )
            for partition in shown
        ],
    )
