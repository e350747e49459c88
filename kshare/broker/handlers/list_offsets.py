"""ListOffsets v1-11: a partition's start and end offset, and the first offset since a timestamp.

v1: the first supported version: one offset for a time, not a list.
v2: the request adds IsolationLevel; the response adds ThrottleTimeMs.
v3: when a quota is exceeded, the response is sent before throttling.
v4: the request adds CurrentLeaderEpoch; the response adds LeaderEpoch.
v5: may return OFFSET_NOT_AVAILABLE.
v6: flexible, with compact lengths and tagged fields.
v7: -3 means the record with the largest timestamp.
v8: -4 means the first offset in the broker's local storage.
v9: -5 means the last offset in tiered storage.
v10: the request adds TimeoutMs.
v11: -6 means the first offset that isn't in tiered storage yet. Since Kafka 4.2.
"""

from __future__ import annotations

from kshare.broker.cluster import Partition
from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from kshare.protocol.messages.list_offsets_request import ListOffsetsPartition
from kshare.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)

_LATEST, _EARLIEST, _LARGEST_TIME, _EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
_READ_COMMITTED = 1
_EPOCH_SINCE = 4


async def handle(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    committed_only = request.isolation_level == _READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name, [_look_up(topic.name, each, committed_only, call) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _look_up(
    topic: str, wanted: ListOffsetsPartition, committed_only: bool, call: Call
) -> ListOffsetsPartitionResponse:
    result = ListOffsetsPartitionResponse(wanted.partition_index)
    try:
        partition = call.broker.cluster.partition_led_by(topic, wanted.partition_index, call.node)
        partition.check_epoch(wanted.current_leader_epoch)
        result.timestamp, result.offset = _find(partition, wanted.timestamp, committed_only)
        if result.offset >= 0 and call.version >= _EPOCH_SINCE:
            result.leader_epoch = partition.leader_epoch
    except RequestError as refusal:
        result.error_code = refusal.code
    return result


def _find(partition: Partition, time: int, committed_only: bool) -> tuple[int, int]:
    """Timestamp and offset; (-1, -1) if there is none."""
    log = partition.log
    end = log.readable_end(committed_only)
    if time == _LATEST:
        return -1, end
    if time in (_EARLIEST, _EARLIEST_LOCAL, _EARLIEST_PENDING):
        return -1, log.start_offset
    if time == _LATEST_TIERED:
        return -1, -1
    if time == _LARGEST_TIME:
        return log.largest_timestamp()
    if time < 0:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, f"unknown special timestamp: {time}")
    found = log.first_from(time)
    return found if found is not None and found[1] < end else (-1, -1)
