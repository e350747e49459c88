"""EndTxn v0-5: commits or aborts a transaction. Since v5, the producer gets a new epoch for the next one.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: may return PRODUCER_FENCED.
v3: flexible, with compact lengths and tagged fields.
v4: may return TRANSACTION_ABORTABLE.
v5: each transaction has its own epoch; the response adds ProducerId and ProducerEpoch.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.protocol.messages import EndTxnRequest, EndTxnResponse

_BUMPS_SINCE = 5


async def handle(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    bumps = call.version >= _BUMPS_SINCE
    call.require_transaction_coordinator(request.transactional_id)
    transaction = call.broker.transactions.end(
        request.transactional_id, request.producer_id, request.producer_epoch, request.committed, bumps
    )
    if not bumps:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=transaction.producer_id, producer_epoch=transaction.epoch)
