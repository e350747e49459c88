"""A member of a share group that accepts all records without decoding any: the baseline for other clients.

One connection, one request at a time. It waits for nothing else, so no share consumer that waits for its responses can
be faster on the same broker. Asks for as few bytes as our client. The caller sends the requests.
"""

from __future__ import annotations

import base64
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kshare.protocol.messages import (
    MetadataRequest,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages import share_acknowledge_request as acknowledging
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.share_fetch_request import AcknowledgementBatch, FetchPartition, FetchTopic
from kshare.state.fetch_size import FetchSize
from tests.helpers.plain_client import PlainClient

_DEADLINE_S = 60.0
_HEARTBEAT_S = 4.0
_POLL_S = 0.2
_ACCEPT = b"\x01"
_DEFAULT_RECORDS = 500
"""The default of Kafka's own consumer."""


class _BigFrames(PlainClient):
    """Receives a whole frame of any size into a new buffer."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(connection)

    def _frame(self) -> memoryview:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, size: int) -> memoryview:
        frame = memoryview(bytearray(size))
        done = 0
        while done < size:
            got = self.connection.recv_into(frame[done:])
            if not got:
                raise ConnectionError("the broker closed the connection")
            done += got
        return frame


class NullMember:
    """Creates the member's requests, and processes their responses."""

    def __init__(self, client: PlainClient, group: str, topic: str, max_records: int) -> None:
        self._group = group
        self._id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._max_records = max_records
        self._epoch = self._session = 0
        self._next_beat = 0.0
        self._fetch_size = FetchSize()
        metadata = client.ask(MetadataRequest([MetadataRequestTopic(name=topic)]))
        self._topic_id = metadata.topics[0].topic_id
        self._partitions = self._join(client, topic)
        self._to_accept = self._nothing()

    def _join(self, client: PlainClient, topic: str) -> list[int]:
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            heartbeat = ShareGroupHeartbeatRequest(
                self._group, self._id, self._epoch, None, None if self._epoch else [topic]
            )
            response = client.ask(heartbeat)
            if response.error_code:
                time.sleep(_POLL_S)  # its coordinator is still loading
                continue
            self._epoch = response.member_epoch
            if response.assignment and response.assignment.topic_partitions:
                return list(response.assignment.topic_partitions[0].partitions)
            time.sleep(_POLL_S)
        raise TimeoutError("no assignment in time")

    def heartbeat(self) -> ShareGroupHeartbeatRequest | None:
        """The next heartbeat, if it is due."""
        if time.monotonic() <= self._next_beat:
            return None
        self._next_beat = time.monotonic() + _HEARTBEAT_S
        return ShareGroupHeartbeatRequest(self._group, self._id, self._epoch, None, None)

    def fetch(self) -> ShareFetchRequest:
        """A fetch that accepts the records of the last one, unless they were acknowledged already."""
        partitions = [
            FetchPartition(number, ranges)
            for number, ranges in self._to_accept.items()
            if ranges or not self._session
        ]
        return ShareFetchRequest(
            *(self._group, self._id, self._session),
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=self._fetch_size.bytes_for(len(self._partitions)),
            max_records=self._max_records,
            batch_size=self._max_records,
            topics=[FetchTopic(self._topic_id, partitions)] if partitions else [],
        )

    def on_fetched(self, response: ShareFetchResponse) -> int:
        """Process a response. Returns the number of records."""
        if response.error_code:
            raise RuntimeError(f"ShareFetch: error {response.error_code}")
        self._session += 1
        self._to_accept = self._nothing()
        count = 0
        for topic in response.responses:
            self._fetch_size.on_response([len(partition.records or b"") for partition in topic.partitions])
            for partition in topic.partitions:
                ranges = self._to_accept[partition.partition_index]
                for record in partition.acquired_records:
                    ranges.append(AcknowledgementBatch(record.first_offset, record.last_offset, _ACCEPT))
                    count += record.last_offset - record.first_offset + 1
        return count

    def acknowledgement(self) -> ShareAcknowledgeRequest:
        """A separate request that accepts the records of the last fetch."""
        partitions = [
            acknowledging.AcknowledgePartition(
                number,
                [
                    acknowledging.AcknowledgementBatch(range_.first_offset, range_.last_offset, _ACCEPT)
                    for range_ in ranges
                ],
            )
            for number, ranges in self._to_accept.items()
            if ranges
        ]
        self._to_accept = self._nothing()
        topics = [acknowledging.AcknowledgeTopic(self._topic_id, partitions)]
        return ShareAcknowledgeRequest(self._group, self._id, self._session, topics=topics)

    def on_acknowledged(self, response: ShareAcknowledgeResponse) -> None:
        self._session += 1
        refused = [
            partition.error_code
            for topic in response.responses
            for partition in topic.partitions
            if partition.error_code
        ]
        if response.error_code or refused:
            raise RuntimeError(f"ShareAcknowledge: errors {[response.error_code, *refused]}")

    def _nothing(self) -> dict[int, list[AcknowledgementBatch]]:
        return {number: [] for number in self._partitions}


@contextmanager
def joined(given: Mapping[str, str]) -> Iterator[tuple[NullMember, PlainClient]]:
    """A member with an assignment, and its blocking connection. `given`: the arguments of a contender."""
    host, port = given["bootstrap"].split(":")
    max_records = int(given.get("max_records", _DEFAULT_RECORDS))
    with socket.create_connection((host, int(port)), timeout=_DEADLINE_S) as connection:
        client = _BigFrames(connection)
        yield NullMember(client, given["group"], given["topic"], max_records), client
