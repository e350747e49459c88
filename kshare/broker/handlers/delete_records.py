"""DeleteRecords v0-2: moves the start of partitions forward. Offset -1 means the end.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: flexible, with compact lengths and tagged fields.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from kshare.protocol.messages.delete_records_request import DeleteRecordsPartition
from kshare.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
)

_TO_THE_END = -1


async def handle(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name, [_delete(topic.name, each, call) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(topic: str, wanted: DeleteRecordsPartition, call: Call) -> DeleteRecordsPartitionResult:
    try:
        partition = call.broker.cluster.partition_led_by(topic, wanted.partition_index, call.node)
        log = partition.log
        offset = log.high_watermark if wanted.offset == _TO_THE_END else wanted.offset
        if not 0 <= offset <= log.high_watermark:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if "delete" not in call.broker.configs.topic(topic, "cleanup.policy"):
            raise RequestError(ErrorCode.POLICY_VIOLATION)
        log.delete_before(offset)
    except RequestError as refusal:
        return DeleteRecordsPartitionResult(wanted.partition_index, -1, refusal.code)
    return DeleteRecordsPartitionResult(wanted.partition_index, log.start_offset)
