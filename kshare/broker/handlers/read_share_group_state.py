"""ReadShareGroupState v0: the whole state of share-partitions, for a new leader.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.authorizer import CLUSTER_NAME, AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.messages import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from kshare.protocol.messages.read_share_group_state_request import PartitionData
from kshare.protocol.messages.read_share_group_state_response import (
    PartitionResult,
    ReadStateResult,
    StateBatch,
)


async def handle(request: ReadShareGroupStateRequest, call: Call) -> ReadShareGroupStateResponse:
    if not request.group_id:
        return ReadShareGroupStateResponse()
    return ReadShareGroupStateResponse(
        [
            ReadStateResult(
                topic.topic_id,
                [_read(request.group_id, topic.topic_id, partition, call) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _read(group: str, topic_id: bytes, requested: PartitionData, call: Call) -> PartitionResult:
    key = group, topic_id, requested.partition
    states = call.broker.share_states
    try:
        call.require(Operation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME)
        states.check_node(key, call.node)
        state = states.read(key, requested.leader_epoch)
    except RequestError as refusal:
        return PartitionResult(
            requested.partition, error_code=refusal.code, error_message=refusal.message or refusal.code.name
        )
    rows = [StateBatch(*batch) for batch in state.batches]
    return PartitionResult(requested.partition, 0, None, state.state_epoch, state.start, rows)
