"""One form for ShareFetch and ShareAcknowledge, request and response together.

Acknowledgement types that don't fit their range are kept as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, TypeAlias

from kshare.protocol.acknowledge_types import AcknowledgeType
from kshare.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kshare.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from kshare.protocol.messages.share_fetch_request import ShareFetchRequest
from kshare.protocol.messages.share_fetch_response import ShareFetchResponse
from kshare.traffic.exchange import Exchange

Partition: TypeAlias = tuple[bytes, int]
"""Topic id and number."""

OPENING, CLOSING = 0, -1
TYPE_NAMES: dict[int, str] = {kind: kind.word for kind in AcknowledgeType}


class AcquiredRange(NamedTuple):
    partition: Partition
    first: int
    last: int
    delivery_count: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class AckedRange(NamedTuple):
    """A range as it was sent: with one type, one type per offset, or an invalid number of types."""

    partition: Partition
    first: int
    last: int
    types: bytes

    @property
    def is_well_formed(self) -> bool:
        return self.last >= self.first and len(self.types) in (1, self.last - self.first + 1)

    def runs(self) -> list[tuple[int, int, int]]:
        """First offset, last offset and type of each run with one type; empty if the range is malformed."""
        _, first, last, types = self
        if len(types) == 1 and first <= last:
            return [(first, last, types[0])]
        if not self.is_well_formed:
            return []
        if types.count(types[:1]) == len(types):
            return [(first, last, types[0])]
        found = []
        at = first
        for kind, run in groupby(types):
            length = sum(1 for _ in run)
            found.append((at, at + length - 1, kind))
            at += length
        return found


class PartitionError(NamedTuple):
    partition: Partition
    code: int
    is_of_acknowledging: bool


@dataclass(slots=True)
class ShareExchange:
    exchange: Exchange
    group: str
    member: str
    epoch: int
    is_renewing: bool
    fetch: ShareFetchRequest | None
    """None for a ShareAcknowledge."""
    named: list[Partition] = field(default_factory=list)
    forgotten: list[Partition] = field(default_factory=list)
    acknowledged: list[AckedRange] = field(default_factory=list)
    acquired: list[AcquiredRange] = field(default_factory=list)
    error: int = 0
    """The error code of the whole response."""
    errors: list[PartitionError] = field(default_factory=list)
    lock_ms: int = 0
    has_response: bool = False

    def refused(self) -> set[Partition]:
        """Partitions whose acknowledgements were refused."""
        return (
            {error.partition for error in self.errors if error.is_of_acknowledging} if self.errors else set()
        )


def share_exchange_of(exchange: Exchange) -> ShareExchange | None:
    """None for requests that don't belong to a share session."""
    request = exchange.request
    if not isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
        return None
    fetch = request if isinstance(request, ShareFetchRequest) else None
    share = ShareExchange(
        exchange,
        request.group_id or "",
        request.member_id or "",
        request.share_session_epoch,
        request.is_renew_ack,
        fetch,
    )
    if fetch:
        share.forgotten = [
            (topic.topic_id, number) for topic in fetch.forgotten_topics_data for number in topic.partitions
        ]
    for topic in request.topics:
        for partition in topic.partitions:
            where = (topic.topic_id, partition.partition_index)
            share.named.append(where)
            for batch in partition.acknowledgement_batches:
                share.acknowledged.append(
                    AckedRange(where, batch.first_offset, batch.last_offset, batch.acknowledge_types)
                )
    _read_response(share, exchange)
    return share


def _read_response(share: ShareExchange, exchange: Exchange) -> None:
    response = exchange.response
    if not isinstance(response, ShareFetchResponse | ShareAcknowledgeResponse):
        return
    share.has_response = True
    share.error = response.error_code
    share.lock_ms = response.acquisition_lock_timeout_ms
    if isinstance(response, ShareAcknowledgeResponse):
        share.errors = [
            PartitionError((topic.topic_id, partition.partition_index), partition.error_code, True)
            for topic in response.responses
            for partition in topic.partitions
            if partition.error_code
        ]
        return
    for fetched in response.responses:
        for data in fetched.partitions:
            where = (fetched.topic_id, data.partition_index)
            if data.error_code:
                share.errors.append(PartitionError(where, data.error_code, False))
            if data.acknowledge_error_code:
                share.errors.append(PartitionError(where, data.acknowledge_error_code, True))
            share.acquired += [
                AcquiredRange(where, record.first_offset, record.last_offset, record.delivery_count)
                for record in data.acquired_records
            ]
