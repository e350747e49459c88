"""Simulates misbehaving clients: encodes requests and responses, decodes them as traffic, and collects findings."""

from __future__ import annotations

from typing import Any

from kshare.protocol.envelopes import encode_request, encode_response
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import (
    MetadataRequest,
    MetadataResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kshare.protocol.messages import share_acknowledge_request as acknowledging
from kshare.protocol.messages import share_acknowledge_response as acknowledged
from kshare.protocol.messages import share_fetch_request as fetching
from kshare.protocol.messages import share_fetch_response as fetched
from kshare.protocol.messages import share_group_heartbeat_response as beating
from kshare.traffic import Connection, ExchangeDecoder, Finding, TrafficAnalyzer

TOPIC = bytes(range(16))
MEMBER = "JdbWNY3-Qq-V0wi6Y3fsFg"
GROUP = "shippers"
LOCK_MS = 30_000

Ack = tuple[int, int, bytes]


class Stage:
    """One client with any number of connections. The clock only moves on request."""

    def __init__(self) -> None:
        self.watch = TrafficAnalyzer()
        self.now = 1000.0
        self.findings: list[Finding] = []
        self._talks: dict[str, ExchangeDecoder] = {}
        self._connections = 0
        self._last_id = 0

    @property
    def rules(self) -> set[str]:
        return {finding.rule for finding in self.findings}

    def _talk(self, server: str) -> ExchangeDecoder:
        if server not in self._talks:
            self._connections += 1
            number = self._connections
            self._talks[server] = ExchangeDecoder(Connection(number, f"10.0.0.1:{5000 + number}", server))
        return self._talks[server]

    def _say(
        self,
        request: Request[Any],
        response: Message,
        *,
        server: str = "broker:9092",
        takes: float = 0.01,
        asked_at: float | None = None,
        behind: bytes = b"",
    ) -> None:
        """`behind`: surplus bytes that the request's frame includes."""
        self._last_id += 1
        version = type(request).VERSIONS[1]
        talk = self._talk(server)
        sent = bytes(encode_request(request, version, self._last_id, "truck-7")) + behind
        sent = (len(sent) - 4).to_bytes(4, "big") + sent[4:]
        done = talk.client_sends(sent, self.now if asked_at is None else asked_at)
        self.now += takes
        done += talk.server_sends(bytes(encode_response(response, version, self._last_id)), self.now)
        for exchange in done:
            assert not exchange.problem
            self.findings += self.watch.see(exchange).findings

    def ask_for_topics(self, behind: bytes = b"") -> None:
        self._say(MetadataRequest(topics=None), MetadataResponse(), behind=behind)

    def fetch(
        self,
        epoch: int,
        *acquired: tuple[int, int, int],
        acks: list[Ack] | None = None,
        server: str = "broker:9092",
        forgets: list[int] | None = None,
        error: int = 0,
        partition_error: int = 0,
        lock_ms: int = LOCK_MS,
        takes: float = 0.01,
        asked_at: float | None = None,
        member: str = MEMBER,
        request: ShareFetchRequest | None = None,
    ) -> None:
        request = request or ShareFetchRequest(max_wait_ms=500, min_bytes=1, max_records=500, batch_size=500)
        request.group_id, request.member_id, request.share_session_epoch = GROUP, member, epoch
        batches = [fetching.AcknowledgementBatch(*ack) for ack in acks or ()]
        if epoch == 0 or batches:
            request.topics = [fetching.FetchTopic(TOPIC, [fetching.FetchPartition(0, batches)])]
        if forgets:
            request.forgotten_topics_data = [fetching.ForgottenTopic(TOPIC, forgets)]
        data = fetched.PartitionData(
            0,
            error_code=partition_error,
            acquired_records=[fetched.AcquiredRecords(*records) for records in acquired],
        )
        response = ShareFetchResponse(
            error_code=error,
            acquisition_lock_timeout_ms=lock_ms,
            responses=[] if error else [fetched.ShareFetchableTopicResponse(TOPIC, [data])],
        )
        self._say(request, response, server=server, takes=takes, asked_at=asked_at)

    def acknowledge(
        self,
        epoch: int,
        *acks: Ack,
        server: str = "broker:9092",
        partition_error: int = 0,
        is_renewing: bool = False,
    ) -> None:
        batches = [acknowledging.AcknowledgementBatch(*ack) for ack in acks]
        topics = [acknowledging.AcknowledgeTopic(TOPIC, [acknowledging.AcknowledgePartition(0, batches)])]
        request = ShareAcknowledgeRequest(GROUP, MEMBER, epoch, is_renewing, topics if batches else [])
        data = acknowledged.PartitionData(0, error_code=partition_error)
        response = ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=LOCK_MS,
            responses=[acknowledged.ShareAcknowledgeTopicResponse(TOPIC, [data])],
        )
        self._say(request, response, server=server)

    def heartbeat(self, epoch: int, *assigned: int) -> None:
        request = ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch, None, ["orders"])
        assignment = (
            beating.Assignment([beating.TopicPartitions(TOPIC, list(assigned))]) if assigned else None
        )
        response = ShareGroupHeartbeatResponse(
            member_id=MEMBER,
            member_epoch=max(epoch, 1) if epoch >= 0 else -1,
            heartbeat_interval_ms=5000,
            assignment=assignment,
        )
        self._say(request, response)

    def reconnect(self, server: str = "broker:9092") -> None:
        """Use a new connection from now on; the old one isn't seen to close."""
        del self._talks[server]

    def missing_bytes(self, server: str = "broker:9092") -> None:
        """The next bytes of both sides are missing from the capture."""
        talk = self._talk(server)
        talk.client_lost(self.now)
        talk.server_lost(self.now)
        self.watch.missing_bytes(talk.connection.number)

    def close(self, server: str = "broker:9092") -> None:
        talk = self._talks.pop(server)
        for exchange in talk.end(self.now):
            self.findings += self.watch.see(exchange).findings
        self.findings += self.watch.connection_closed(talk.connection, self.now)

    def finish(self) -> None:
        self.findings += self.watch.finish(self.now)
