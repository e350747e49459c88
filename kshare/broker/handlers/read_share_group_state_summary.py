"""ReadShareGroupStateSummary v0-1: the state of share-partitions, without that of their records.

v0: the first version.
v1: the response adds DeliveryCompleteCount. Since Kafka 4.2.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.share_state.state_records import Key
from kshare.broker.share_state.state_requests import state_results
from kshare.protocol.messages import ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse
from kshare.protocol.messages.read_share_group_state_summary_request import PartitionData
from kshare.protocol.messages.read_share_group_state_summary_response import (
    PartitionResult,
    ReadStateSummaryResult,
)


async def handle(
    request: ReadShareGroupStateSummaryRequest, call: Call
) -> ReadShareGroupStateSummaryResponse:
    def summarize(key: Key, requested: PartitionData) -> PartitionResult:
        state = call.broker.share_states.summary(key)
        return PartitionResult(
            requested.partition, 0, None, state.state_epoch, state.leader_epoch, state.start, state.settled
        )

    return ReadShareGroupStateSummaryResponse(
        state_results(request, call, summarize, PartitionResult, ReadStateSummaryResult)
    )
