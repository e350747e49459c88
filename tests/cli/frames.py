"""Bytes for tests to decode: messages of a share consumer and a broker, and a segment of the state topic."""

from __future__ import annotations

from kshare.protocol.compression import Compression
from kshare.protocol.envelopes import encode_request, encode_response
from kshare.protocol.messages import (
    SaslAuthenticateRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareSnapshotKey,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kshare.protocol.messages.share_fetch_request import FetchPartition, FetchTopic
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
)
from kshare.protocol.messages.share_snapshot_value import ShareSnapshotValue
from kshare.protocol.messages.share_update_value import StateBatch
from kshare.protocol.record_builder import BatchBuilder

TOPIC_ID = bytes(range(16))
PASSWORD = b"s3cret-s3cret"
_TIME = 1_750_000_000_000


def fetch_request() -> bytes:
    topics = [FetchTopic(TOPIC_ID, [FetchPartition(0), FetchPartition(1)])]
    request = ShareFetchRequest(
        group_id="orders", member_id="AAECAwQFBgcICQoLDA0ODw", max_wait_ms=500, topics=topics
    )
    return bytes(encode_request(request, 2, correlation_id=7, client_id="me"))


def batch(base_offset: int = 100, compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, compression=compression)
    for number in range(2):
        builder.append(b"order %d" % number, key=b"k", timestamp=_TIME, headers=[("trace", b"\xff\x00")])
    return bytes(builder.build())


def fetch_response() -> bytes:
    partition = PartitionData(0, records=memoryview(batch()), acquired_records=[AcquiredRecords(100, 101, 1)])
    response = ShareFetchResponse(
        acquisition_lock_timeout_ms=30_000, responses=[ShareFetchableTopicResponse(TOPIC_ID, [partition])]
    )
    return bytes(encode_response(response, 2, correlation_id=7))


def login() -> bytes:
    request = SaslAuthenticateRequest(auth_bytes=b"\0user\0" + PASSWORD)
    return bytes(encode_request(request, 2, correlation_id=3, client_id="me"))


def state_key() -> bytes:
    return b"\0\0" + ShareSnapshotKey("orders", TOPIC_ID, 3).encode(0)


def state_segment() -> bytes:
    """Two batches as in `__share_group_state`: a snapshot, and a compressed update."""
    first = BatchBuilder(base_offset=0)
    first.append(b"\0\0" + ShareSnapshotValue(start_offset=5).encode(0), key=state_key(), timestamp=_TIME)
    second = BatchBuilder(base_offset=1, compression=Compression.ZSTD)
    update = ShareUpdateValue(state_batches=[StateBatch(5, 9, 2, 1)])
    key = b"\0\1" + ShareUpdateKey("orders", TOPIC_ID, 3).encode(0)
    second.append(b"\0\0" + update.encode(0), key=key, timestamp=_TIME)
    return bytes(first.build()) + bytes(second.build())
