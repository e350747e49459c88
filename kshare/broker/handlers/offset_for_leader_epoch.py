"""OffsetForLeaderEpoch v2-4: the end offset of a leader epoch, by which consumers detect truncation.

v2: the first supported version.
v3: the request adds ReplicaId.
v4: flexible, with compact lengths and tagged fields.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kshare.protocol.messages.offset_for_leader_epoch_request import OffsetForLeaderPartition
from kshare.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderTopicResult,
)


async def handle(request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [_find(topic.topic, each, call) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _find(topic: str, wanted: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
    try:
        partition = call.broker.cluster.partition_led_by(topic, wanted.partition, call.node)
        partition.check_epoch(wanted.current_leader_epoch)
    except RequestError as refusal:
        return EpochEndOffset(refusal.code, wanted.partition)
    if wanted.leader_epoch == partition.leader_epoch:
        return EpochEndOffset(0, wanted.partition, wanted.leader_epoch, partition.log.end_offset)
    if wanted.leader_epoch > partition.leader_epoch:
        return EpochEndOffset(0, wanted.partition)
    epoch, end = partition.log.epoch_end(wanted.leader_epoch)
    return EpochEndOffset(0, wanted.partition, epoch, end)
