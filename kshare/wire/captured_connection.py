"""Decodes one captured connection: finds out which side is the client, and whether it is a Kafka connection.

If the capture doesn't contain its beginning, the client is the side whose bytes look like a request; otherwise known
servers and port numbers decide.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto

from kshare.capture import MissingBytes, ReceivedBytes, TcpConnection
from kshare.protocol.frames import MAX_FRAME
from kshare.traffic import Connection, Exchange, ExchangeDecoder
from kshare.traffic.request_heads import begins_with_request, is_tls

_MOST_WAITING = 64
"""The most events that are kept until the client is known."""
_FIRST_FREE_PORT = 32_768
"""Systems assign ports from here on to clients."""


class ConnectionKind(Enum):
    UNCLEAR = auto()
    KAFKA = auto()
    ENCRYPTED = auto()
    FOREIGN = auto()


class KnownServers:
    """Addresses of servers that were seen, and server ports that the user named."""

    def __init__(self, ports: Collection[int]) -> None:
        self._ports = ports
        self._names: set[str] = set()

    def side(self, link: TcpConnection) -> int | None:
        for side in (0, 1):
            if link.name(side) in self._names or _port(link, side) in self._ports:
                return side
        return None

    def learn(self, name: str) -> None:
        self._names.add(name)


class CapturedExchanges:
    def __init__(self, link: TcpConnection, servers: KnownServers, max_frame: int = MAX_FRAME) -> None:
        self.kind = ConnectionKind.UNCLEAR
        self.connection: Connection | None = None
        self._link = link
        self._servers = servers
        self._max_frame = max_frame
        self._client = link.opener
        self._waiting: list[ReceivedBytes | MissingBytes] = []
        self._decoder: ExchangeDecoder | None = None

    def hear(self, event: ReceivedBytes | MissingBytes) -> list[Exchange]:
        """Process an event. Returns the exchanges that it completes."""
        if self.kind in (ConnectionKind.ENCRYPTED, ConnectionKind.FOREIGN):
            return []
        if self._decoder is not None:
            return self._decode(event)
        self._waiting.append(event)
        if not self._is_client_clear(event):
            return []
        self._start_decoding()
        events, self._waiting = self._waiting, []
        return [done for waiting in events for done in self._decode(waiting)]

    def end(self, time: float) -> list[Exchange]:
        """Exchanges without a response."""
        return self._decoder.end(time) if self._decoder and self.kind is ConnectionKind.KAFKA else []

    def _is_client_clear(self, event: ReceivedBytes | MissingBytes) -> bool:
        if self._client is None and isinstance(event, ReceivedBytes) and begins_with_request(event.data):
            self._client = event.side
        if self._client is None and (server := self._servers.side(self._link)) is not None:
            self._client = 1 - server
        if self._client is None and len(self._waiting) >= _MOST_WAITING:
            self._client = self._likely_client()
        return self._client is not None

    def _likely_client(self) -> int:
        ports = [_port(self._link, side) for side in (0, 1)]
        if (ports[0] < _FIRST_FREE_PORT) != (ports[1] < _FIRST_FREE_PORT):
            return int(ports[1] >= _FIRST_FREE_PORT)
        return int(ports[1] > ports[0])

    def _start_decoding(self) -> None:
        assert self._client is not None, "the client is known"
        names = self._link.name(self._client), self._link.name(1 - self._client)
        self._decoder = ExchangeDecoder(
            Connection(self._link.number, *names),
            is_joined_late=self._link.opener is None,
            max_frame=self._max_frame,
        )
        self._servers.learn(names[1])

    def _decode(self, event: ReceivedBytes | MissingBytes) -> list[Exchange]:
        decoder = self._decoder
        assert decoder is not None, "called after _start_decoding"
        is_client = event.side == self._client
        if isinstance(event, MissingBytes):
            (decoder.client_lost if is_client else decoder.server_lost)(event.time)
            return []
        if self.kind is ConnectionKind.UNCLEAR and is_tls(event.data):
            self.kind = ConnectionKind.ENCRYPTED
            return []
        done = (decoder.client_sends if is_client else decoder.server_sends)(event.data, event.time)
        if decoder.is_kafka is False:
            self.kind = ConnectionKind.FOREIGN
            return []
        if decoder.is_kafka:
            self.kind = ConnectionKind.KAFKA
            self.connection = decoder.connection
        return done


def _port(link: TcpConnection, side: int) -> int:
    return int(link.name(side).rpartition(":")[2])
