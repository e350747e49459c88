"""DescribeQuorum v0-2: the controller quorum, which has one node, and the current time there.

v0: the first version.
v1: the response adds LastFetchTimestamp and LastCaughtUpTimestamp.
v2: the response adds ErrorMessage, ReplicaDirectoryId and Nodes.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.protocol.messages import DescribeQuorumRequest, DescribeQuorumResponse
from kshare.protocol.messages.describe_quorum_response import PartitionData, ReplicaState, TopicData


async def handle(request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    controller, now = call.broker.cluster.controller.id, call.broker.clock.now()
    alone = ReplicaState(controller)
    if call.version >= 1:
        alone.last_fetch_timestamp = alone.last_caught_up_timestamp = now
    return DescribeQuorumResponse(
        topics=[
            TopicData(
                topic.topic_name,
                [
                    PartitionData(partition.partition_index, leader_id=controller, current_voters=[alone])
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
