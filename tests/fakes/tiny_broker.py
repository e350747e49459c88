"""A minimal broker for a NodeSession: one share-partition in memory, with calls instead of sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from kshare.errors import ConnectionLost
from kshare.net.pending import OnResponse, PendingRequest
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kshare.protocol.messages import share_acknowledge_response as acknowledged
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
)
from kshare.protocol.record_builder import BatchBuilder

TOPIC = b"t" * 16
PARTITION = (TOPIC, 0)
AVAILABLE, ACQUIRED, ACCEPTED, ARCHIVED = "available", "acquired", "accepted", "archived"
_NEXT = {0: ARCHIVED, 1: ACCEPTED, 2: AVAILABLE, 3: ARCHIVED}


class TinyBroker:
    """`cut` maps a request's number to when its connection breaks: before the request is read, or after it is done."""

    def __init__(self, records: int, cut: dict[int, str] | None = None) -> None:
        self.states = [AVAILABLE] * records
        self.deliveries = [0] * records
        self.epoch = 0
        self.requests: list[ShareFetchRequest | ShareAcknowledgeRequest] = []
        self.cut = cut or {}
        self.lock_ms = 30000
        self.is_wanted = False
        """Whether the partition is in the session."""

    # --- the request line

    is_free = True

    async def open(self, on_closed: Callable[[str], None], timeout: float) -> None:
        await anyio.lowlevel.checkpoint()

    def send(self, request: Any, on_response: OnResponse) -> Any:
        self.begun = (request, on_response)
        return self.begun

    async def wait_for_response(self, pending: Any, timeout: float) -> None:
        asking, on_response = pending
        while asking is not None:
            asking = on_response(PendingRequest(asking), await self.ask(asking))

    def close(self, reason: str) -> None:
        self.disconnect()

    # --- the broker

    async def ask(self, request: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        number = len(self.requests)
        self.requests.append(request)
        if self.cut.get(number) == "before":
            self.disconnect()
            raise ConnectionLost("cut before")
        response = self._response(request)
        if self.cut.get(number) == "after":
            self.disconnect()
            raise ConnectionLost("cut after")
        if isinstance(response, ShareFetchResponse) and not response.responses:
            await anyio.sleep(0.002)  # a broker without records waits, only longer
        return response

    def disconnect(self) -> None:
        """As on real brokers, the session ends, and all records that it held become available at once."""
        self.epoch, self.is_wanted = 0, False
        self.states = [AVAILABLE if state == ACQUIRED else state for state in self.states]

    def _response(self, request: Any) -> ShareFetchResponse | ShareAcknowledgeResponse:
        is_fetch = isinstance(request, ShareFetchRequest)
        kind = ShareFetchResponse if is_fetch else ShareAcknowledgeResponse
        if request.share_session_epoch not in (self.epoch, -1):
            return kind(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        batches = [b for topic in request.topics for p in topic.partitions for b in p.acknowledgement_batches]
        assert not (batches and request.share_session_epoch == 0), "acknowledgements when a session opens"
        error = self._acknowledge(batches)
        if request.share_session_epoch == -1:
            self.disconnect()
        else:
            self.epoch += 1
        if not is_fetch:
            partition = acknowledged.PartitionData(partition_index=0, error_code=error)
            rows = [acknowledged.ShareAcknowledgeTopicResponse(TOPIC, [partition])] if batches else []
            return ShareAcknowledgeResponse(responses=rows, acquisition_lock_timeout_ms=self.lock_ms)
        self.is_wanted = (self.is_wanted or bool(request.topics)) and not request.forgotten_topics_data
        data = self._acquire(request.max_records if self.is_wanted else 0)
        data.acknowledge_error_code = error
        rows_ = [ShareFetchableTopicResponse(TOPIC, [data])] if batches or data.acquired_records else []
        return ShareFetchResponse(responses=rows_, acquisition_lock_timeout_ms=self.lock_ms)

    def _acknowledge(self, batches: list[Any]) -> int:
        wanted: list[tuple[int, int]] = []
        for batch in batches:
            assert not wanted or wanted[-1][0] < batch.first_offset, (
                "the ranges don't ascend, so a broker would refuse all of them"
            )
            count = batch.last_offset - batch.first_offset + 1
            types = (
                batch.acknowledge_types * count
                if len(batch.acknowledge_types) == 1
                else batch.acknowledge_types
            )
            wanted += list(zip(range(batch.first_offset, batch.last_offset + 1), types, strict=True))
        if any(self.states[offset] != ACQUIRED for offset, _ in wanted):
            return ErrorCode.INVALID_RECORD_STATE
        for offset, kind in wanted:
            self.states[offset] = _NEXT.get(kind, ACQUIRED)
        return 0

    def _acquire(self, max_records: int) -> PartitionData:
        offsets = [offset for offset, state in enumerate(self.states) if state == AVAILABLE][:max_records]
        builder = BatchBuilder(base_offset=offsets[0] if offsets else 0, leader_epoch=1)
        ranges: list[AcquiredRecords] = []
        for offset in offsets:
            builder.append(b"%d" % offset, timestamp=0, offset=offset)
            self.states[offset] = ACQUIRED
            self.deliveries[offset] += 1
            if (
                ranges
                and ranges[-1].last_offset == offset - 1
                and ranges[-1].delivery_count == self.deliveries[offset]
            ):
                ranges[-1].last_offset = offset
            else:
                ranges.append(AcquiredRecords(offset, offset, self.deliveries[offset]))
        return PartitionData(0, records=bytes(builder.build()) if offsets else b"", acquired_records=ranges)
