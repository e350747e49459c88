"""Large files for `decode`: a log segment, and captures of a share consumer's run, every record of it accepted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kshare.capture import CaptureWriter
from kshare.protocol.envelopes import encode_request, encode_response
from kshare.protocol.messages import ShareFetchRequest, ShareFetchResponse
from kshare.protocol.messages.share_fetch_request import AcknowledgementBatch, FetchPartition, FetchTopic
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
)
from kshare.protocol.record_builder import BatchBuilder

RECORD_BYTES = 256
_TOPIC_ID = bytes(range(16))
_VERSION = 2
_ACCEPT = b"\x01"
_TIME = 1_750_000_000


def write_segment(path: Path, size: int) -> None:
    """Of batches with 500 records each."""
    offset = written = 0
    with path.open("wb") as file:
        while written < size:
            written += file.write(_batch(offset, 500))
            offset += 500


def write_capture(path: Path, size: int, records: int, packet: int) -> None:
    """A fetch has so many records; a packet carries so many bytes at most."""
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


def _exchanges(records: int) -> Iterator[tuple[bytes, bytes]]:
    epoch = 0
    while True:
        first, last = epoch * records, epoch * records + records - 1
        settled = [AcknowledgementBatch(first - records, first - 1, _ACCEPT)] if epoch else []
        topics = [FetchTopic(_TOPIC_ID, [FetchPartition(0, acknowledgement_batches=settled)])]
        request = ShareFetchRequest(
            group_id="shippers",
            member_id="AAECAwQFBgcICQoLDA0ODw",
            share_session_epoch=epoch,
            max_records=500,
            topics=topics,
        )
        partition = PartitionData(
            0,
            records=memoryview(_batch(first, records)),
            acquired_records=[AcquiredRecords(first, last, 1)],
        )
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=30_000,
            responses=[ShareFetchableTopicResponse(_TOPIC_ID, [partition])],
        )
        yield (
            bytes(encode_request(request, _VERSION, correlation_id=epoch, client_id="truck-7")),
            bytes(encode_response(response, _VERSION, correlation_id=epoch)),
        )
        epoch += 1


def _batch(offset: int, records: int) -> bytes:
    builder = BatchBuilder(base_offset=offset)
    value = os.urandom(RECORD_BYTES)
    for number in range(records):
        builder.append(value, key=b"%d" % number, timestamp=_TIME * 1000)
    return bytes(builder.build())
