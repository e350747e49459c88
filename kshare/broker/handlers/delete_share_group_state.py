"""DeleteShareGroupState v0: deletes the state of share-partitions.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.share_state.state_records import Key
from kshare.broker.share_state.state_requests import state_results
from kshare.protocol.messages import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from kshare.protocol.messages.delete_share_group_state_request import PartitionData
from kshare.protocol.messages.delete_share_group_state_response import DeleteStateResult, PartitionResult


async def handle(request: DeleteShareGroupStateRequest, call: Call) -> DeleteShareGroupStateResponse:
    def delete(key: Key, requested: PartitionData) -> PartitionResult:
        call.broker.share_states.delete(key)
        return PartitionResult(requested.partition)

    return DeleteShareGroupStateResponse(
        state_results(request, call, delete, PartitionResult, DeleteStateResult)
    )
