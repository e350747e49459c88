"""AddOffsetsToTxn v0-4: adds the offsets of a group to a transaction.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: may return PRODUCER_FENCED.
v3: flexible, with compact lengths and tagged fields.
v4: may return TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_TRANSACTION = 1


async def handle(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    transactions = call.broker.transactions
    try:
        if call.broker.cluster.coordinator(_TRANSACTION, request.transactional_id) is not call.node:
            raise RequestError(ErrorCode.NOT_COORDINATOR)
        transaction = transactions.find(request.transactional_id, request.producer_id, request.producer_epoch)
        transactions.add(transaction, [])
    except RequestError as refusal:
        return AddOffsetsToTxnResponse(error_code=refusal.code)
    return AddOffsetsToTxnResponse()
