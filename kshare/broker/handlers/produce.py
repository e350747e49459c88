"""Produce v3-13: appends batches as they were sent. Without replicas, any `acks` is satisfied at once.

Since v12, transactional producers don't add partitions explicitly: writing adds them.

v3: the first supported version: batches of the current format, and transactions.
v4: may return KAFKA_STORAGE_ERROR.
v5: the response adds LogStartOffset.
v6: when a quota is exceeded, the response is sent before throttling.
v7: records may be compressed by zstd.
v8: the response adds RecordErrors and ErrorMessage.
v9: flexible, with compact lengths and tagged fields.
v10: the response adds CurrentLeader and NodeEndpoints.
v11: may return TRANSACTION_ABORTABLE.
v12: partitions needn't be added to a transaction explicitly: writing adds them.
v13: the request adds TopicId and drops Name; the response adds TopicId and drops Name.
"""

from __future__ import annotations

from kshare.broker.authorizer import AclResource, Operation
from kshare.broker.cluster import Partition
from kshare.broker.connection import Call, CloseConnection
from kshare.broker.log import KeylessRecordsError
from kshare.broker.new_leaders import NewLeaders
from kshare.broker.request_error import RequestError
from kshare.errors import CorruptBatchError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ProduceRequest, ProduceResponse
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    TopicProduceResponse,
)
from kshare.protocol.records import read_batches

_BY_ID_SINCE = 13
_IMPLICIT_SINCE = 12
_LEADER_TOLD_SINCE = 10
_RECORD_ERRORS_SINCE = 8
_RECORDS_TOLD = 3


async def handle(request: ProduceRequest, call: Call) -> ProduceResponse | None:
    response = ProduceResponse()
    leaders = NewLeaders(call.broker.cluster)
    for topic in request.topic_data:
        results = [_append(topic, data, request, call, leaders) for data in topic.partition_data]
        response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, results))
    if request.acks == 0:
        if any(each.error_code for topic in response.responses for each in topic.partition_responses):
            # There is no response that could contain the error.
            raise CloseConnection
        return None
    response.node_endpoints = leaders.endpoints(NodeEndpoint)
    return response


def _append(
    topic: TopicProduceData,
    data: PartitionProduceData,
    request: ProduceRequest,
    call: Call,
    leaders: NewLeaders,
) -> PartitionProduceResponse:
    result = PartitionProduceResponse(data.index, base_offset=-1)
    name = topic.topic_id if call.version >= _BY_ID_SINCE else topic.name
    try:
        if request.acks not in (-1, 0, 1):
            raise RequestError(ErrorCode.INVALID_REQUIRED_ACKS)
        partition = call.broker.cluster.partition_led_by(name, data.index, call.node)
        call.require(Operation.WRITE, AclResource.TOPIC, partition.topic.name)
        if partition.topic.is_internal:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, "clients must not write to internal topics")
        _join_transaction(partition, data, request, call)
        appended = partition.log.append(
            data.records or b"", now=call.now, leader_epoch=partition.leader_epoch
        )
    except KeylessRecordsError as keyless:
        _refuse_records(result, keyless, partition, call)
        return result
    except RequestError as refusal:
        result.error_code = refusal.code
        result.error_message = refusal.message
        if refusal.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and call.version >= _LEADER_TOLD_SINCE:
            result.current_leader = LeaderIdAndEpoch(*leaders.find(name, data.index))
        return result
    result.base_offset = appended.base_offset
    result.log_append_time_ms = appended.append_time
    result.log_start_offset = partition.log.start_offset
    return result


def _refuse_records(
    result: PartitionProduceResponse, keyless: KeylessRecordsError, partition: Partition, call: Call
) -> None:
    """The errors have Kafka's texts, because clients show them."""
    result.error_code = keyless.code
    result.log_start_offset = partition.log.start_offset
    if call.version < _RECORD_ERRORS_SINCE:
        return
    reason = (
        "Compacted topic cannot accept message without key in topic partition "
        f"{partition.topic.name}-{partition.index}"
    )
    result.record_errors = [BatchIndexAndErrorMessage(index, reason) for index in keyless.indexes]
    first = ", ".join(
        f"RecordError(batchIndex={index}, message='{reason}')" for index in keyless.indexes[:_RECORDS_TOLD]
    )
    result.error_message = (
        f"One or more records have been rejected due to {len(keyless.indexes)} record errors in total, "
        f"and only showing the first three errors at most: [{first}]"
    )


def _join_transaction(
    partition: Partition, data: PartitionProduceData, request: ProduceRequest, call: Call
) -> None:
    """Check that transactional batches belong to an open transaction of their producer."""
    try:
        batches = list(read_batches(data.records or b""))
    except CorruptBatchError as broken:
        raise RequestError(ErrorCode.CORRUPT_MESSAGE, str(broken)) from None
    for batch in batches:
        if batch.is_transactional:
            if request.transactional_id is None:
                raise RequestError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            call.broker.transactions.enlist(
                request.transactional_id,
                batch.producer_id,
                batch.producer_epoch,
                partition,
                adds=call.version >= _IMPLICIT_SINCE,
            )
