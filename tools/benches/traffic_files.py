"""Writes large files for `decode`: a log segment, and captures of a share consumer that accepts every record.

The consumer fetches from one partition after the other, with numbers of records that repeat in each round. It
occasionally sends a heartbeat.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from kshare.capture import CaptureWriter
from kshare.protocol.envelopes import encode_request, encode_response
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import (
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kshare.protocol.messages.share_fetch_request import AcknowledgementBatch, FetchPartition, FetchTopic
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
)
from kshare.protocol.record_builder import BatchBuilder

RECORD_BYTES = 256
_TOPIC_ID = bytes(range(16))
_PARTITIONS = 4
_GROUP, _MEMBER = "shippers", "AAECAwQFBgcICQoLDA0ODw"
_TURNS_A_BEAT = 50
_FETCH_VERSION, _BEAT_VERSION = 2, 1
_ACCEPT = b"\x01"
_TIME = 1_750_000_000


def write_segment(path: Path, size: int) -> None:
    """Write a segment with batches of 500 records each."""
    offset = written = 0
    with path.open("wb") as file:
        while written < size:
            written += file.write(_batch(offset, 500))
            offset += 500


def write_capture(path: Path, size: int, records: Sequence[int], packet: int) -> None:
    """Write a capture. `records`: the numbers of records in a round's fetches. `packet`: the maximum packet size."""
    with path.open("wb") as file:
        link = CaptureWriter(file.write).connect(("10.0.0.7", 51234), ("10.0.0.1", 9092), _TIME)
        for number, (request, response) in enumerate(_exchanges(records)):
            now = _TIME + number / 100
            for at in range(0, len(request), packet):
                link.client_sends(request[at : at + packet], now)
            for at in range(0, len(response), packet):
                link.server_sends(response[at : at + packet], now + 0.005)
            if file.tell() >= size:
                link.close(now + 1)
                return


def _exchanges(records: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the frames of requests and responses."""
    ends = [0] * _PARTITIONS
    settled: tuple[int, list[AcknowledgementBatch]] = 0, []
    for epoch in count():
        if epoch % _TURNS_A_BEAT == 1:
            heartbeat = ShareGroupHeartbeatRequest(_GROUP, _MEMBER, 1)
            yield _frames(heartbeat, ShareGroupHeartbeatResponse(0, member_epoch=1), _BEAT_VERSION, epoch)
        number, fetched = epoch % _PARTITIONS, records[epoch % len(records)]
        first, last = ends[number], ends[number] + fetched - 1
        ends[number] = last + 1
        partition, acknowledged = settled
        request = ShareFetchRequest(
            group_id=_GROUP,
            member_id=_MEMBER,
            share_session_epoch=epoch,
            max_records=500,
            topics=[FetchTopic(_TOPIC_ID, [FetchPartition(partition, acknowledgement_batches=acknowledged)])],
        )
        data = PartitionData(
            number,
            records=memoryview(_batch(first, fetched)),
            acquired_records=[AcquiredRecords(first, last, 1)],
        )
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=30_000, responses=[ShareFetchableTopicResponse(_TOPIC_ID, [data])]
        )
        settled = number, [AcknowledgementBatch(first, last, _ACCEPT)]
        yield _frames(request, response, _FETCH_VERSION, epoch)


def _frames(request: Request[Any], response: Message, version: int, number: int) -> tuple[bytes, bytes]:
    return (
        bytes(encode_request(request, version, correlation_id=number, client_id="truck-7")),
        bytes(encode_response(response, version, correlation_id=number)),
    )


def _batch(offset: int, records: int) -> bytes:
    builder = BatchBuilder(base_offset=offset)
    value = os.urandom(RECORD_BYTES)
    for number in range(records):
        builder.append(value, key=b"%d" % number, timestamp=_TIME * 1000)
    return bytes(builder.build())
