"""TxnOffsetCommit v0-6: commits offsets together with the producer's transaction.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: the request adds CommittedLeaderEpoch.
v3: the request adds GenerationIdOrMemberEpoch, MemberId and GroupInstanceId; flexible, with compact lengths
    and tagged fields.
v4: may return TRANSACTION_ABORTABLE.
v5: a group's offsets needn't be added to the transaction explicitly.
v6: the request adds TopicId and drops Name; the response adds TopicId and drops Name, and may have
    STALE_MEMBER_EPOCH. Since Kafka 4.4.
"""

from __future__ import annotations

from kshare.broker.classic_groups.offsets import CommittedOffset
from kshare.broker.connection import Call
from kshare.broker.handlers.offset_commit import named_partitions
from kshare.broker.request_error import RequestError
from kshare.broker.transactions import TransactionState
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kshare.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_BY_ID_SINCE = 6
_IMPLICIT_SINCE = 5
_HAS_STALE_EPOCHS_SINCE = 6


async def handle(request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    error = ErrorCode.NONE
    try:
        _check(request, call)
    except RequestError as refusal:
        error = refusal.code
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        found = call.broker.cluster.find(topic.topic_id if call.version >= _BY_ID_SINCE else topic.name)
        result = TxnOffsetCommitResponseTopic(topic.name, topic.topic_id)
        for each in topic.partitions:
            code = error
            if not code and (found is None or not 0 <= each.partition_index < len(found.partitions)):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif not code and found is not None:
                call.broker.classic_groups.offsets.commit_later(
                    request.producer_id,
                    request.group_id,
                    (found.name, each.partition_index),
                    CommittedOffset.of(each),
                )
            result.partitions.append(TxnOffsetCommitResponsePartition(each.partition_index, code))
        response.topics.append(result)
    return response


def _check(request: TxnOffsetCommitRequest, call: Call) -> None:
    call.require_group_coordinator(request.group_id)
    transactions = call.broker.transactions
    transaction = transactions.find(request.transactional_id, request.producer_id, request.producer_epoch)
    if call.version >= _IMPLICIT_SINCE:
        transactions.add(transaction, [])
    elif transaction.state is not TransactionState.ONGOING:
        raise RequestError(ErrorCode.INVALID_TXN_STATE)
    if not request.member_id and request.generation_id_or_member_epoch < 0:
        return
    if call.broker.consumer_groups.has(request.group_id):
        _check_member(request, call)
    else:
        call.broker.classic_groups.check_commit(
            request.group_id,
            request.member_id,
            request.generation_id_or_member_epoch,
            request.group_instance_id,
        )


def _check_member(request: TxnOffsetCommitRequest, call: Call) -> None:
    """Raises RequestError if the member of a consumer group may not commit."""
    partitions = named_partitions(request, call, call.version >= _BY_ID_SINCE)
    try:
        call.broker.consumer_groups.check_commit(
            request.group_id, request.member_id, request.generation_id_or_member_epoch, partitions, None
        )
    except RequestError as refusal:
        if refusal.code is ErrorCode.STALE_MEMBER_EPOCH and call.version < _HAS_STALE_EPOCHS_SINCE:
            raise RequestError(ErrorCode.ILLEGAL_GENERATION) from None
        raise
