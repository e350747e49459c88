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
from kshare.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
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
    code_of = _codes(wanted, call)
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, code_of(topic.name, index))
                for index in topic.partitions
            ],
        )
        for topic in wanted.topics
    ]


def _codes(wanted: AddPartitionsToTxnTransaction, call: Call) -> Callable[[str, int], ErrorCode]:
    """Add the partitions, or verify them. Returns what tells the error code of each."""
    transactions, cluster = call.broker.transactions, call.broker.cluster
    try:
        call.require_transaction_coordinator(wanted.transactional_id)
        transaction = transactions.find(wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)
    except RequestError as refusal:
        code = refusal.code
        return lambda _name, _index: code
    named = [(topic.name, index) for topic in wanted.topics for index in topic.partitions]
    unknown = {(name, index) for name, index in named if not _exists(name, index, call)}
    if unknown:
        return lambda name, index: _unknown_or_skipped((name, index) in unknown)
    if wanted.verify_only:
        return lambda name, index: _verify(transaction, name, index, call)
    transactions.add(transaction, [cluster.partition(name, index) for name, index in named])
    return lambda _name, _index: ErrorCode.NONE


def _exists(topic: str, index: int, call: Call) -> bool:
    found = call.broker.cluster.find(topic)
    return found is not None and 0 <= index < len(found.partitions)


def _unknown_or_skipped(is_unknown: bool) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown else ErrorCode.OPERATION_NOT_ATTEMPTED


def _verify(transaction: Transaction, topic: str, index: int, call: Call) -> ErrorCode:
    partition = call.broker.cluster.partition(topic, index)
    is_in = transaction.state is TransactionState.ONGOING and partition in transaction.partitions
    return ErrorCode.NONE if is_in else ErrorCode.TRANSACTION_ABORTABLE
