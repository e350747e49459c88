"""DescribeProducers v0: the idempotent and transactional producers that have written to partitions.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.request_error import NOT_HOSTED, RequestError
from kshare.protocol.messages import DescribeProducersRequest, DescribeProducersResponse
from kshare.protocol.messages.describe_producers_response import (
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


async def handle(request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [_described(topic.name, index, call) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _described(topic: str, index: int, call: Call) -> PartitionResponse:
    try:
        partition = call.broker.cluster.partition_led_by(topic, index, call.node)
    except RequestError as refusal:
        is_known = call.broker.cluster.find(topic) is not None
        return PartitionResponse(index, refusal.code, None if is_known else NOT_HOSTED)
    producers = [
        ProducerState(
            producer_id,
            state.epoch,
            state.written[-1].last_sequence if state.written else -1,
            state.last_timestamp,
            state.coordinator_epoch,
            -1 if state.first_open_offset is None else state.first_open_offset,
        )
        for producer_id, state in partition.log.producers.items()
    ]
    return PartitionResponse(index, active_producers=producers)
