"""WriteShareGroupState v0-1: stores a leader's state updates; in v1 with the number of settled records in flight.

v0: the first version.
v1: the request adds DeliveryCompleteCount. Since Kafka 4.2.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.share_state.share_state import StateUpdate
from kshare.broker.share_state.state_records import Key, stored_batches
from kshare.broker.share_state.state_requests import state_results
from kshare.protocol.messages import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from kshare.protocol.messages.write_share_group_state_request import PartitionData
from kshare.protocol.messages.write_share_group_state_response import PartitionResult, WriteStateResult


async def handle(request: WriteShareGroupStateRequest, call: Call) -> WriteShareGroupStateResponse:
    def write(key: Key, written: PartitionData) -> PartitionResult:
        update = StateUpdate(
            written.state_epoch,
            written.leader_epoch,
            written.start_offset,
            written.delivery_complete_count,
            stored_batches(written.state_batches),
        )
        call.broker.share_states.write(key, update)
        return PartitionResult(written.partition)

    return WriteShareGroupStateResponse(
        state_results(request, call, write, PartitionResult, WriteStateResult)
    )
