"""ReadShareGroupStateSummary v0-1: the state of share-partitions, without that of their records.

v0: the first version.
v1: the response adds DeliveryCompleteCount. Since Kafka 4.2.
"""

from __future__ import annotations

from kshare.broker.authorizer import CLUSTER_NAME, AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.messages import ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse
from kshare.protocol.messages.read_share_group_state_summary_request import PartitionData
from kshare.protocol.messages.read_share_group_state_summary_response import (
    PartitionResult,
    ReadStateSummaryResult,
)


async def handle(
    request: ReadShareGroupStateSummaryRequest, call: Call
) -> ReadShareGroupStateSummaryResponse:
    if not request.group_id:
        return ReadShareGroupStateSummaryResponse()
    return ReadShareGroupStateSummaryResponse(
        [
            ReadStateSummaryResult(
                topic.topic_id,
                [
                    _summarize(request.group_id, topic.topic_id, partition, call)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _summarize(group: str, topic_id: bytes, requested: PartitionData, call: Call) -> PartitionResult:
    key = group, topic_id, requested.partition
    states = call.broker.share_states
    try:
        call.require(Operation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME)
        states.check_node(key, call.node)
        state = states.summary(key)
    except RequestError as refusal:
        return PartitionResult(
            requested.partition, error_code=refusal.code, error_message=refusal.message or refusal.code.name
        )
    return PartitionResult(
        requested.partition, 0, None, state.state_epoch, state.leader_epoch, state.start, state.settled
    )
