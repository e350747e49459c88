"""Load that continues through all faults, from a plain producer, whose failures and writes are fully known.

A batch without a successful response isn't sent again: its records may have been written or not.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterable

from kshare.protocol.messages import MetadataRequest, ProduceRequest
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.metadata_response import MetadataResponse
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.protocol.record_builder import BatchBuilder
from tests.helpers.history import History
from tests.helpers.plain_client import PlainClient

Address = tuple[str, int]

_RESPONSE_S = 3.0
_PAUSE_S = 0.02
_MOST_AHEAD = 3_000
"""How many records may wait for consumers. On a busy machine, these are slow."""
_ALL_IN_SYNC = -1


class Load:
    """Produces at most `rate` records a second, with unique values, to the partitions of `topic` in turn."""

    def __init__(
        self, addresses: Iterable[Address], topic: str, history: History, rate: float, size: int = 50
    ) -> None:
        self._addresses = itertools.cycle(addresses)
        self._topic = topic
        self._history = history
        self._portion = max(1, round(rate * _PAUSE_S))
        self._padding = b"." * size
        self._numbers = itertools.count()
        self._stop = threading.Event()
        self._clients: dict[Address, tuple[socket.socket, PlainClient]] = {}
        self._topic_id = bytes(16)
        self._leaders: dict[int, Address] = {}

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Run until `stop`. Blocks, so it needs a thread."""
        turn = itertools.count()
        try:
            while not self._stop.wait(_PAUSE_S):
                if len(self._history.produced) - len(self._history.accepted) > _MOST_AHEAD:
                    continue
                try:
                    if not self._leaders:
                        self._look_for_leaders()
                    if self._leaders:
                        self._send(sorted(self._leaders)[next(turn) % len(self._leaders)])
                except (OSError, AssertionError):  # a plain client asserts that the connection wasn't closed
                    self._hang_up()
        finally:
            self._hang_up()

    def _send(self, partition: int) -> None:
        builder = BatchBuilder()
        values = [b"%d" % next(self._numbers) + self._padding for _ in range(self._portion)]
        now = int(time.time() * 1000)
        for value in values:
            self._history.on_attempt(value)
            builder.append(value, timestamp=now)
        data = PartitionProduceData(partition, bytes(builder.build()))
        row = TopicProduceData(self._topic, self._topic_id, [data])
        request = ProduceRequest(acks=_ALL_IN_SYNC, timeout_ms=round(_RESPONSE_S * 1000), topic_data=[row])
        response = self._client(self._leaders[partition]).ask(request)
        said = response.responses[0].partition_responses[0]
        if said.error_code:
            self._hang_up()
            return
        for number, value in enumerate(values):
            self._history.on_produced(value, (partition, said.base_offset + number))

    def _look_for_leaders(self) -> None:
        response = self._client(next(self._addresses)).ask(
            MetadataRequest([MetadataRequestTopic(name=self._topic)])
        )
        self._topic_id = response.topics[0].topic_id
        self._leaders = leaders(response)

    def _client(self, address: Address) -> PlainClient:
        if address not in self._clients:
            connection = socket.create_connection(address, timeout=_RESPONSE_S)
            try:
                self._clients[address] = connection, PlainClient(connection)
            except BaseException:
                connection.close()
                raise
        return self._clients[address][1]

    def _hang_up(self) -> None:
        """Close all connections. The leaders are looked up again."""
        for connection, _ in self._clients.values():
            connection.close()
        self._clients.clear()
        self._leaders = {}


def leaders(response: MetadataResponse) -> dict[int, Address]:
    """The leader of each partition that has one."""
    nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
    rows = response.topics[0].partitions
    return {row.partition_index: nodes[row.leader_id] for row in rows if row.leader_id in nodes}
