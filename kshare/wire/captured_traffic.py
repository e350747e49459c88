"""The traffic of a network capture: packets → connections → exchanges, which are reported as they are found.

Its notes say what is missing in the capture, and what in it isn't Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Protocol

from kshare.capture import Closed, MissingBytes, Streams, UnreadPacketError, segment_of
from kshare.capture.packet import Packet
from kshare.capture.tcp_connection import TcpEvent
from kshare.protocol.frames import MAX_FRAME
from kshare.traffic import AnalyzedExchange, Exchange, Finding, TrafficAnalyzer
from kshare.traffic.summary import Summary
from kshare.wire.captured_connection import CapturedExchanges, ConnectionKind, KnownServers
from kshare.wording import counted


class CaptureListener(Protocol):
    """Gets everything that is found in a capture, in its order."""

    def show(self, analyzed: AnalyzedExchange) -> None: ...

    def findings(self, findings: list[Finding]) -> None:
        """Findings that aren't about one exchange."""
        ...


class CapturedTraffic:
    """The traffic of a capture. Keeps only open connections in memory."""

    def __init__(
        self, listener: CaptureListener, ports: Collection[int] = (), *, max_frame: int = MAX_FRAME
    ) -> None:
        self.packets = 0
        self._max_frame = max_frame
        self._listener = listener
        self._ports = frozenset(ports)
        self._servers = KnownServers(self._ports)
        self._watch = TrafficAnalyzer()
        self._streams = Streams()
        self._captured: dict[int, CapturedExchanges] = {}
        self._kinds: Counter[ConnectionKind] = Counter()
        self._unread: Counter[str] = Counter()
        self._lost_bytes = 0
        self._without_response = 0
        self._now = 0.0

    def packet(self, packet: Packet) -> None:
        self.packets += 1
        self._now = max(self._now, packet.time)
        try:
            segment = segment_of(packet)
        except UnreadPacketError as unread:
            self._unread[str(unread)] += 1
            return
        if segment is None:
            return
        if self._ports and self._ports.isdisjoint((segment.source[1], segment.target[1])):
            return
        for event in self._streams.feed(segment, packet.time):
            self._decode(event)

    @property
    def connections(self) -> int:
        """How many were opened so far, of any kind."""
        return self._streams.opened

    def end(self, is_late: Callable[[], bool] = lambda: False) -> None:
        """No packets follow. As soon as it is late, what was still held back is left out."""
        for event in self._streams.finish(self._now):
            if is_late():
                break
            self._decode(event)
        self._listener.findings(self._watch.finish(self._now))

    @property
    def summary(self) -> Summary:
        return self._watch.summary

    @property
    def json(self) -> dict[str, object]:
        return {
            "type": "capture",
            "packets": self.packets,
            "unread": dict(self._unread),
            "connections": {kind.name.lower(): self._kinds[kind] for kind in ConnectionKind},
            "lostBytes": self._lost_bytes,
            "unanswered": self._without_response,
        }

    def notes(self) -> Iterator[str]:
        """Why traffic may be missing in the output."""
        for reason, count in self._unread.items():
            yield f"{counted(count, 'packet')} could not be read: {reason}"
        kinds = self._kinds
        if count := kinds[ConnectionKind.ENCRYPTED]:
            encrypted = counted(count, "connection")
            yield f"{encrypted} encrypted (TLS) and not shown; kshare trace supports TLS to the cluster"
        if count := kinds[ConnectionKind.FOREIGN] + kinds[ConnectionKind.UNCLEAR]:
            yield f"{counted(count, 'connection')} without Kafka traffic"
        if self._lost_bytes:
            yield f"{self._lost_bytes:,} bytes are missing in the capture: their exchanges aren't shown"
        if self._without_response:
            yield f"{counted(self._without_response, 'request')} had no response yet when the capture ended"

    def _decode(self, event: TcpEvent) -> None:
        number = event.link.number
        if isinstance(event, Closed):
            self._close(self._captured.pop(number, None), event)
            return
        captured = self._captured.get(number)
        if captured is None:
            captured = self._captured[number] = CapturedExchanges(event.link, self._servers, self._max_frame)
        if isinstance(event, MissingBytes):
            self._lost_bytes += event.size
            self._watch.missing_bytes(number)
        if done := captured.hear(event):
            self._show(done)

    def _close(self, captured: CapturedExchanges | None, event: Closed) -> None:
        if captured is None:
            return
        self._kinds[captured.kind] += 1
        unfinished = captured.end(event.time)
        if event.is_cut:
            self._without_response += len(unfinished)
            return
        self._show(unfinished)
        if captured.connection:
            self._listener.findings(self._watch.connection_closed(captured.connection, event.time))

    def _show(self, exchanges: list[Exchange]) -> None:
        for exchange in exchanges:
            self._listener.show(self._watch.see(exchange))
