"""WriteShareGroupState v0-1: stores a leader's state updates; in v1 with the number of settled records in flight.

v0: the first version.
v1: the request adds DeliveryCompleteCount. Since Kafka 4.2.
"""

from __future__ import annotations

from kshare.broker.authorizer import CLUSTER_NAME, AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.share_state.share_state import StateUpdate
from kshare.broker.share_state.state_batches import StateBatch
from kshare.protocol.messages import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from kshare.protocol.messages.write_share_group_state_request import PartitionData
from kshare.protocol.messages.write_share_group_state_response import PartitionResult, WriteStateResult


async def handle(request: WriteShareGroupStateRequest, call: Call) -> WriteShareGroupStateResponse:
    if not request.group_id:
        return WriteShareGroupStateResponse()
    return WriteShareGroupStateResponse(
        [
            WriteStateResult(
                topic.topic_id,
                [_write(request.group_id, topic.topic_id, partition, call) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _write(group: str, topic_id: bytes, written: PartitionData, call: Call) -> PartitionResult:
    key = group, topic_id, written.partition
    states = call.broker.share_states
    try:
        call.require(Operation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME)
        states.check_node(key, call.node)
        states.write(key, _update(written))
    except RequestError as refusal:
        return PartitionResult(
            written.partition, error_code=refusal.code, error_message=refusal.message or refusal.code.name
        )
    return PartitionResult(written.partition)


def _update(written: PartitionData) -> StateUpdate:
    return StateUpdate(
        written.state_epoch,
        written.leader_epoch,
        written.start_offset,
        written.delivery_complete_count,
        tuple(
            StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count)
            for row in written.state_batches
        ),
    )
