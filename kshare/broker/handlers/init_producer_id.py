"""InitProducerId v0-5: an id for an idempotent producer, or id and epoch for a transactional one.

v0: the first version.
v1: when a quota is exceeded, the response is sent before throttling.
v2: flexible, with compact lengths and tagged fields.
v3: a producer may request a new epoch for its producer id; the request adds ProducerId and ProducerEpoch.
v4: may return PRODUCER_FENCED.
v5: may return TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import InitProducerIdRequest, InitProducerIdResponse


async def handle(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    transactions, name = call.broker.transactions, request.transactional_id
    if name is None:
        return InitProducerIdResponse(producer_id=transactions.new_producer_id(), producer_epoch=0)
    try:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        call.require_transaction_coordinator(name)
        transaction = transactions.begin_producer(
            name, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
    except RequestError as refusal:
        return InitProducerIdResponse(error_code=refusal.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=transaction.producer_id, producer_epoch=transaction.epoch)
