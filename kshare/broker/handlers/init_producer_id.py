"""InitProducerId v0-5: an id for an idempotent producer, or id and epoch for a transactional one.

v0: the first.
v1: clients are held back after the answer, not before it.
v2: flexible, with compact lengths and tagged fields.
v3: a producer may ask for a new epoch of the id it has; the request adds ProducerId and ProducerEpoch.
v4: may answer PRODUCER_FENCED.
v5: may answer TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from kshare.broker.connection import Call
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

_TRANSACTION = 1


async def handle(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    transactions, name = call.broker.transactions, request.transactional_id
    if name is None:
        return InitProducerIdResponse(producer_id=transactions.new_producer_id(), producer_epoch=0)
    try:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        if call.broker.cluster.coordinator(_TRANSACTION, name) is not call.node:
            raise RequestError(ErrorCode.NOT_COORDINATOR)
        begun = transactions.begin_producer(
            name, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
    except RequestError as refusal:
        return InitProducerIdResponse(error_code=refusal.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=begun.producer_id, producer_epoch=begun.epoch)
