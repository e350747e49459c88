"""DeleteShareGroupState v0: deletes the state of share-partitions.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.authorizer import CLUSTER_NAME, AclResource, Operation
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.messages import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from kshare.protocol.messages.delete_share_group_state_request import PartitionData
from kshare.protocol.messages.delete_share_group_state_response import DeleteStateResult, PartitionResult


async def handle(request: DeleteShareGroupStateRequest, call: Call) -> DeleteShareGroupStateResponse:
    if not request.group_id:
        return DeleteShareGroupStateResponse()
    return DeleteShareGroupStateResponse(
        [
            DeleteStateResult(
                topic.topic_id,
                [
                    _delete(request.group_id, topic.topic_id, partition, call)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(group: str, topic_id: bytes, requested: PartitionData, call: Call) -> PartitionResult:
    key = group, topic_id, requested.partition
    states = call.broker.share_states
    try:
        call.require(Operation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME)
        states.check_node(key, call.node)
        states.delete(key)
    except RequestError as refusal:
        return PartitionResult(
            requested.partition, error_code=refusal.code, error_message=refusal.message or refusal.code.name
        )
    return PartitionResult(requested.partition)
