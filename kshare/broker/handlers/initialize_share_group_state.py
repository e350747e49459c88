"""InitializeShareGroupState v0: initializes share-partitions, with or without a start offset.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.share_state.state_records import Key
from kshare.broker.share_state.state_requests import state_results
from kshare.protocol.messages import InitializeShareGroupStateRequest, InitializeShareGroupStateResponse
from kshare.protocol.messages.initialize_share_group_state_request import PartitionData
from kshare.protocol.messages.initialize_share_group_state_response import (
    InitializeStateResult,
    PartitionResult,
)


async def handle(request: InitializeShareGroupStateRequest, call: Call) -> InitializeShareGroupStateResponse:
    def initialize(key: Key, requested: PartitionData) -> PartitionResult:
        call.broker.share_states.initialize(key, requested.state_epoch, requested.start_offset)
        return PartitionResult(requested.partition)

    return InitializeShareGroupStateResponse(
        state_results(request, call, initialize, PartitionResult, InitializeStateResult)
    )
