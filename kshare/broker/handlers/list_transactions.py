"""ListTransactions v0-2: the transactional ids that this node coordinates, with their producers and states.

v0: the first version.
v1: the request adds DurationFilter.
v2: the request adds TransactionalIdPattern.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.consumer_groups.regexes import check_regex, matching
from kshare.broker.transactions import Transaction, TransactionState
from kshare.protocol.messages import ListTransactionsRequest, ListTransactionsResponse
from kshare.protocol.messages.list_transactions_response import TransactionState as ListedTransaction

_MOMENTARY = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead")
"""States of Kafka that transactions here are never in."""


async def handle(request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    known = {state.value for state in TransactionState} | set(_MOMENTARY)
    unknown = [state for state in request.state_filters if state not in known]
    found = _found(request, call)
    rows = [ListedTransaction(each.transactional_id, each.producer_id, each.state) for each in found]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows)


def _found(request: ListTransactionsRequest, call: Call) -> list[Transaction]:
    pattern = request.transactional_id_pattern
    transactions = call.broker.transactions.by_id
    ids = frozenset(transactions)
    if pattern:
        check_regex(pattern)
        ids = matching(pattern, transactions)
    return [
        each
        for each in transactions.values()
        if each.transactional_id in ids
        and call.coordinates_transaction(each.transactional_id)
        and (not request.state_filters or each.state in request.state_filters)
        and (not request.producer_id_filters or each.producer_id in request.producer_id_filters)
        and (request.duration_filter < 0 or _duration(each, call.now) > request.duration_filter)
    ]


def _duration(transaction: Transaction, now: int) -> int:
    return now - transaction.began if transaction.state is TransactionState.ONGOING else -1
