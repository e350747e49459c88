"""AddOffsetsToTxn v0-4: adds the offsets of a group to a transaction.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: may return PRODUCER_FENCED.
v3: flexible, with compact lengths and tagged fields.
v4: may return TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


async def handle(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    transactions = call.broker.transactions
    call.require_transaction_coordinator(request.transactional_id)
    transaction = transactions.find(request.transactional_id, request.producer_id, request.producer_epoch)
    transactions.add(transaction, [])
    return AddOffsetsToTxnResponse()
