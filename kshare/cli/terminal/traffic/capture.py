"""Shows a network capture: packets → connections → exchanges → lines.

Notes at the end say what is missing in the capture, and what in it isn't Kafka.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from kshare.capture import CaptureReader, Closed, MissingBytes, Streams, UnreadPacketError, segment_of
from kshare.capture.packet import Packet
from kshare.capture.tcp_connection import TcpEvent
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.traffic.captured_connection import CapturedExchanges, ConnectionKind, KnownServers
from kshare.cli.terminal.traffic.view import TrafficOptions, TrafficView
from kshare.cli.terminal.wording import counted_large
from kshare.errors import CaptureError
from kshare.traffic import Exchange, TrafficAnalyzer


def show_capture(chunks: Iterable[bytes], name: str, ports: list[int], show: TrafficOptions) -> None:
    screen = Screen()
    traffic = CapturedTraffic(TrafficView(screen, show), ports)
    reader = CaptureReader()
    damage: CaptureError | None = None
    try:
        for chunk in chunks:
            for packet in reader.feed(chunk):
                traffic.packet(packet)
            screen.done()
        reader.finish()
    except CaptureError as problem:
        if not traffic.packets:
            raise Failure(f"{name}: {problem}") from None
        damage = problem
    traffic.end(screen, is_json=show.is_json)
    if damage:
        raise Failure(f"{name}: {damage}")


class CapturedTraffic:
    """The traffic of a capture. Keeps only open connections in memory."""

    def __init__(self, view: TrafficView, ports: list[int]) -> None:
        self.packets = 0
        self._view = view
        self._ports = frozenset(ports)
        self._servers = KnownServers(self._ports)
        self._watch = TrafficAnalyzer()
        self._streams = Streams()
        self._captured: dict[int, CapturedExchanges] = {}
        self._kinds: Counter[ConnectionKind] = Counter()
        self._unread: Counter[str] = Counter()
        self._lost_bytes = 0
        self._unanswered = 0
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

    def end(self, screen: Screen, *, is_json: bool) -> None:
        for event in self._streams.finish(self._now):
            self._decode(event)
        self._view.findings(self._watch.finish(self._now))
        self._view.summary(self._watch.summary)
        if is_json:
            screen.text(json.dumps(self._form()) + "\n")
        for note in self._notes():
            self._view.note(note)
        self._view.unnamed()
        screen.done()

    def _decode(self, event: TcpEvent) -> None:
        number = event.link.number
        if isinstance(event, Closed):
            self._close(self._captured.pop(number, None), event)
            return
        captured = self._captured.get(number)
        if captured is None:
            captured = self._captured[number] = CapturedExchanges(event.link, self._servers)
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
            self._unanswered += len(unfinished)
            return
        self._show(unfinished)
        if captured.connection:
            self._view.findings(self._watch.connection_closed(captured.connection, event.time))

    def _show(self, exchanges: list[Exchange]) -> None:
        for exchange in exchanges:
            self._view.show(self._watch.see(exchange))

    def _form(self) -> dict[str, object]:
        return {
            "type": "capture",
            "packets": self.packets,
            "unread": dict(self._unread),
            "connections": {kind.name.lower(): self._kinds[kind] for kind in ConnectionKind},
            "lostBytes": self._lost_bytes,
            "unanswered": self._unanswered,
        }

    def _notes(self) -> Iterator[str]:
        """Why traffic may be missing in the output."""
        for reason, count in self._unread.items():
            yield f"{counted_large(count, 'packet')} could not be read: {reason}"
        kinds = self._kinds
        if count := kinds[ConnectionKind.ENCRYPTED]:
            encrypted = counted_large(count, "connection")
            yield f"{encrypted} encrypted (TLS) and not shown; kshare trace supports TLS to the cluster"
        if count := kinds[ConnectionKind.FOREIGN] + kinds[ConnectionKind.UNCLEAR]:
            yield f"{counted_large(count, 'connection')} without Kafka traffic"
        if self._lost_bytes:
            yield f"{self._lost_bytes:,} bytes are missing in the capture: their exchanges aren't shown"
        if self._unanswered:
            yield f"{counted_large(self._unanswered, 'request')} had no response yet when the capture ended"
