"""AddPartitionsToTxn v0-5: sent by producers before v4; since v4 by brokers, in batches and to verify.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: may return PRODUCER_FENCED.
v3: flexible, with compact lengths and tagged fields.
v4: for brokers, in batches; the request adds Transactions and drops V3AndBelowTransactionalId,
    V3AndBelowProducerId, V3AndBelowProducerEpoch and V3AndBelowTopics; the response adds ErrorCode and
    ResultsByTransaction and drops ResultsByTopicV3AndBelow.
v5: may return TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Callable

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.broker.transactions import Transaction, TransactionState
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kshare.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kshare.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

_BATCHED_SINCE = 4


async def handle(request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse:
    if call.version >= _BATCHED_SINCE:
        results = [
            AddPartitionsToTxnResult(each.transactional_id, _add(each, call)) for each in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    only = AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        False,
        request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_add(only, call))


def _add(wanted: AddPartitionsToTxnTransaction, call: Call) -> list[AddPartitionsToTxnTopicResult]:
    try:
        call.require_transaction_coordinator(wanted.transactional_id)
        transaction = call.broker.transactions.find(
            wanted.transactional_id, wanted.producer_id, wanted.producer_epoch
        )
    except RequestError as refusal:
        return [_same(topic, refusal.code) for topic in wanted.topics]
    unknown = {
        (topic.name, index)
        for topic in wanted.topics
        for index in topic.partitions
        if not _exists(topic.name, index, call)
    }
    if unknown:
        return [
            _each(topic, lambda name, index: _unknown_or_skipped((name, index) in unknown))
            for topic in wanted.topics
        ]
    if wanted.verify_only:
        return [
            _each(topic, lambda name, index: _verify(transaction, name, index, call))
            for topic in wanted.topics
        ]
    partitions = [
        call.broker.cluster.partition(topic.name, index)
        for topic in wanted.topics
        for index in topic.partitions
    ]
    call.broker.transactions.add(transaction, partitions)
    return [_same(topic, ErrorCode.NONE) for topic in wanted.topics]


def _exists(topic: str, index: int, call: Call) -> bool:
    found = call.broker.cluster.find(topic)
    return found is not None and 0 <= index < len(found.partitions)


def _unknown_or_skipped(is_unknown: bool) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown else ErrorCode.OPERATION_NOT_ATTEMPTED


def _verify(transaction: Transaction, topic: str, index: int, call: Call) -> ErrorCode:
    partition = call.broker.cluster.partition(topic, index)
    is_in = transaction.state is TransactionState.ONGOING and partition in transaction.partitions
    return ErrorCode.NONE if is_in else ErrorCode.TRANSACTION_ABORTABLE


def _same(topic: AddPartitionsToTxnTopic, code: ErrorCode) -> AddPartitionsToTxnTopicResult:
    return _each(topic, lambda _name, _index: code)


def _each(
    topic: AddPartitionsToTxnTopic, check: Callable[[str, int], ErrorCode]
) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        topic.name,
        [AddPartitionsToTxnPartitionResult(index, check(topic.name, index)) for index in topic.partitions],
    )
