"""DescribeTransactions v0: the state, the producer and the partitions of transactional ids.

v0: the first version.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.transactions import TransactionState
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from kshare.protocol.messages.describe_transactions_response import TopicData
from kshare.protocol.messages.describe_transactions_response import TransactionState as DescribedTransaction


async def handle(request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_described(each, call) for each in request.transactional_ids]
    )


def _described(transactional_id: str, call: Call) -> DescribedTransaction:
    if not call.coordinates_transaction(transactional_id):
        return DescribedTransaction(ErrorCode.NOT_COORDINATOR, transactional_id)
    transaction = call.broker.transactions.by_id.get(transactional_id)
    if transaction is None:
        return DescribedTransaction(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    topics: dict[str, TopicData] = {}
    for partition in sorted(transaction.partitions, key=lambda each: (each.topic.name, each.index)):
        name = partition.topic.name
        topics.setdefault(name, TopicData(name)).partitions.append(partition.index)
    has_begun = transaction.state is not TransactionState.EMPTY
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.began if has_begun else -1,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=list(topics.values()),
    )
