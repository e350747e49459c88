"""Turns TCP segments of many connections into events of each connection: data in order, missing bytes, its end.

Decides which connection a segment belongs to. The first packet of a connection counts as its beginning, even if the
connection is older than the capture.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from .segments import RST, SYN, Segment, SocketAddress
from .tcp_connection import TcpConnection, TcpEvent

MAX_HELD = 8 * 1024 * 1024
"""How many bytes after a gap are kept in one direction; beyond that, the bytes in the gap count as missing."""
_REMEMBERED = 1024
"""How many closed connections to remember, since their last packets may be repeated."""

_Key = tuple[SocketAddress, SocketAddress]


class Streams:
    """Takes segments and returns events. Its memory is bounded for each open connection."""

    def __init__(self, most_held: int = MAX_HELD) -> None:
        self._max_held_bytes = most_held
        self._links: dict[_Key, tuple[TcpConnection, int]] = {}
        self._ended: deque[tuple[_Key, TcpConnection]] = deque()
        self.opened = 0
        """How many connections there were so far."""

    def feed(self, segment: Segment, time: float) -> Iterable[TcpEvent]:
        """Returns the events that this segment completes."""
        key = (segment.source, segment.target)
        found = self._links.get(key)
        events = None
        if found is not None and not found[0].is_over:
            events = found[0].take_next(found[1], segment, time)
        return self._feed(key, found, segment, time) if events is None else events

    def _feed(
        self, key: _Key, found: tuple[TcpConnection, int] | None, segment: Segment, time: float
    ) -> Iterator[TcpEvent]:
        if found is not None and found[0].is_other(found[1], segment):
            yield from found[0].end(time)
            self._forget(key, found[0])
            found = None
        if found is None:
            if not (segment.payload or segment.flags & SYN) or segment.flags & RST:
                return
            found = self._open(key, segment)
        link, side = found
        if not link.is_over:
            yield from link.take(side, segment, time)
            if link.is_over:
                self._remember(key, link)

    def finish(self, time: float) -> Iterator[TcpEvent]:
        """Call it at the end of the capture: returns the events of everything that is still held."""
        for link, side in list(self._links.values()):
            if side == 0:
                yield from link.end(time, is_cut=True)
        self._links.clear()

    def _open(self, key: _Key, segment: Segment) -> tuple[TcpConnection, int]:
        self.opened += 1
        link = TcpConnection(self.opened, segment, self._max_held_bytes)
        self._links[key] = link, 0
        self._links[key[::-1]] = link, 1
        return link, 0

    def _remember(self, key: _Key, link: TcpConnection) -> None:
        self._ended.append((key, link))
        if len(self._ended) > _REMEMBERED:
            self._forget(*self._ended.popleft())

    def _forget(self, key: _Key, link: TcpConnection) -> None:
        for end in (key, key[::-1]):
            if end in self._links and self._links[end][0] is link:
                del self._links[end]
