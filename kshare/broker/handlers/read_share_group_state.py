"""ReadShareGroupState v0: the whole state of share-partitions, for a new leader.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.share_state.state_records import Key
from kshare.broker.share_state.state_requests import state_results
from kshare.protocol.messages import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from kshare.protocol.messages.read_share_group_state_request import PartitionData
from kshare.protocol.messages.read_share_group_state_response import (
    PartitionResult,
    ReadStateResult,
    StateBatch,
)


async def handle(request: ReadShareGroupStateRequest, call: Call) -> ReadShareGroupStateResponse:
    def read(key: Key, requested: PartitionData) -> PartitionResult:
        state = call.broker.share_states.read(key, requested.leader_epoch)
        rows = [StateBatch(*batch) for batch in state.batches]
        return PartitionResult(requested.partition, 0, None, state.state_epoch, state.start, rows)

    return ReadShareGroupStateResponse(state_results(request, call, read, PartitionResult, ReadStateResult))
