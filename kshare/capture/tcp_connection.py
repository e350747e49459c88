"""One TCP connection: puts both directions in order, and reports missing bytes.

Decides how long to wait for the bytes in a gap. As long as the other side hasn't acknowledged them, they are still to
come. Once it has, the capture lacks them or contains them late, and waiting for a few more packets is enough.

Also decides the order between the two directions. A segment that acknowledges bytes was sent after these had arrived,
so it is reported after them: no response comes before its request, in whatever order packets were captured.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from .segments import ACK, FIN, RST, SYN, Segment, endpoint

_PATIENCE = 32
"""After this many packets of the connection, bytes that the other side has acknowledged count as missing."""
_FAR = 1 << 28
"""More than any window. A segment that is farther away belongs to another connection of these ports, or is damaged."""
_PART_BYTES = 256
"""How much memory a held part takes besides its payload."""
_HALF, _WHOLE = 1 << 31, 1 << 32
_UNUSUAL = SYN | FIN | RST


class TcpConnection:
    """A connection. Side 0 sent the first captured packet; the other side is 1."""

    def __init__(self, number: int, segment: Segment, most_held: int) -> None:
        self.number = number
        self.opener: int | None = None
        """The side that opened it; None if the capture began later."""
        if segment.flags & SYN:
            self.opener = 1 if segment.flags & ACK else 0
        self.is_over = False
        self._addresses = (segment.source, segment.target)
        self._directions = (_Direction(), _Direction())
        self._max_held_bytes = most_held
        self._packets = 0

    def name(self, side: int) -> str:
        """Address and port of a side, as text."""
        return endpoint(self._addresses[side])

    def is_other(self, side: int, segment: Segment) -> bool:
        """Whether this segment opens another connection between the same ports."""
        if not segment.flags & SYN:
            return False
        first = self._directions[side].first
        if first is None:
            return self.opener is None and not segment.flags & ACK
        return first != _behind_syn(segment)

    def take_next(self, side: int, segment: Segment, time: float) -> tuple[TcpEvent, ...] | None:
        """A faster `take` for the usual case: the segment is the next one, and nothing is held or missing.

        Returns None in all other cases: then call `take`.
        """
        direction, other = self._directions[side], self._directions[1 - side]
        if (
            segment.flags & _UNUSUAL
            or segment.missing
            or segment.acknowledged < 0
            or direction.held
            or other.held
            or direction.is_over
            or direction.first is None
            or other.first is None
        ):
            return None
        after = other.position(segment.acknowledged)
        is_known = other.acknowledged <= other.next and other.next - _FAR <= after <= other.next
        if not is_known or segment.sequence != direction.next % _WHOLE:
            return None
        self._packets += 1
        if after > other.acknowledged:
            other.acknowledged = after
        payload = segment.payload
        if not payload:
            return ()
        direction.next += len(payload)
        return (ReceivedBytes(self, side, bytes(payload), time),)

    def take(self, side: int, segment: Segment, time: float) -> Iterator[TcpEvent]:
        """Returns the events that this segment completes."""
        self._packets += 1
        direction, other = self._directions[side], self._directions[1 - side]
        sequence = _behind_syn(segment) if segment.flags & SYN else segment.sequence
        begin = direction.position(sequence)
        if abs(begin - direction.next) > _FAR:
            yield MissingBytes(self, side, 0, time)
            direction.begin_again(sequence)
            begin = direction.next
        after = other.acknowledge(segment.acknowledged)
        flags = segment.flags & (FIN | RST)
        if not direction.is_over and (segment.payload or segment.missing or flags):
            part = _Part(begin, self._packets, after, bytes(segment.payload), segment.missing, flags, time)
            if not direction.held and not other.held and begin == direction.next and after <= other.next:
                yield from self._show(side, part)
                return
            if part.end > direction.next or flags:
                direction.hold(part)
        if direction.held or other.held or other.lacks():
            yield from self._settle(time)

    def end(self, time: float, *, is_cut: bool = False) -> Iterator[TcpEvent]:
        """No segments follow: returns the events of everything that is held."""
        while not self.is_over:
            side = self._ready()
            if side is None:
                waiting = [side for side in (0, 1) if self._directions[side].held]
                if not waiting:
                    self.is_over = True
                    yield Closed(self, time, is_cut)
                    return
                side = self._blocking_side(waiting[0])
            yield from self._advance(side, time)

    def _settle(self, time: float) -> Iterator[TcpEvent]:
        """Report what can be reported, and skip gaps that were waited for too long."""
        while not self.is_over:
            side = self._ready()
            if side is None and (side := self._overdue()) is None:
                return
            yield from self._advance(side, time)

    def _ready(self) -> int | None:
        """The side whose next part may be reported now; if both may, the one whose part was captured first."""
        ready = []
        for side, direction in enumerate(self._directions):
            if (
                direction.held
                and not direction.has_gap()
                and direction.held[0].after <= self._directions[1 - side].next
            ):
                ready.append((direction.held[0].serial, side))
        return min(ready)[1] if ready else None

    def _overdue(self) -> int | None:
        """The side whose gap was waited for long enough."""
        for side, direction in enumerate(self._directions):
            if self._is_overdue(direction):
                return self._blocking_side(side)
        return None

    def _blocking_side(self, side: int) -> int:
        """The side whose gap blocks this one: its own if it has one, otherwise the other's."""
        is_others = not self._directions[side].has_gap() and self._directions[1 - side].has_gap()
        return 1 - side if is_others else side

    def _is_overdue(self, direction: _Direction) -> bool:
        if direction.held_bytes > self._max_held_bytes:
            return True
        if not direction.lacks():
            direction.doubted_since = None
            return False
        if direction.doubted_since is None or direction.doubted_at != direction.next:
            direction.doubted_since, direction.doubted_at = self._packets, direction.next
        return self._packets - direction.doubted_since >= _PATIENCE

    def _advance(self, side: int, time: float) -> Iterator[TcpEvent]:
        """Skip the gap, or report the next part."""
        direction = self._directions[side]
        direction.doubted_since = None
        if not direction.has_gap():
            yield from self._show(side, direction.release())
            return
        ends = [direction.held[0].begin] if direction.held else []
        if direction.lacks():
            ends.append(direction.acknowledged)
        yield MissingBytes(self, side, min(ends) - direction.next, time)
        direction.next = min(ends)

    def _show(self, side: int, part: _Part) -> Iterator[TcpEvent]:
        direction = self._directions[side]
        fresh = part.payload[direction.next - part.begin :] if direction.next > part.begin else part.payload
        if fresh:
            yield ReceivedBytes(self, side, fresh, part.time)
        missing = part.end - max(direction.next, part.end - part.missing)
        if missing > 0:
            yield MissingBytes(self, side, missing, part.time)
        is_last = part.flags & RST or (part.flags & FIN and part.end >= direction.next)
        direction.next = max(direction.next, part.end)
        if is_last:
            direction.next += 1
            direction.finish()
            if part.flags & RST or self._directions[1 - side].is_over:
                yield from self.end(part.time)


class ReceivedBytes(NamedTuple):
    """The next bytes that `side` sent."""

    link: TcpConnection
    side: int
    data: bytes
    time: float


class MissingBytes(NamedTuple):
    """The next `size` bytes that `side` sent are not in the capture; 0 if their number is unknown."""

    link: TcpConnection
    side: int
    size: int
    time: float


class Closed(NamedTuple):
    """The last event of a connection."""

    link: TcpConnection
    time: float
    is_cut: bool
    """The capture ended before the connection did."""


TcpEvent = ReceivedBytes | MissingBytes | Closed


class _Part(NamedTuple):
    """The contents of a segment; ordered by their position in the stream."""

    begin: int
    serial: int
    after: int
    payload: bytes
    missing: int
    flags: int
    time: float

    @property
    def end(self) -> int:
        return self.begin + len(self.payload) + self.missing


class _Direction:
    """What one side sent. Unlike sequence numbers, positions don't wrap around."""

    def __init__(self) -> None:
        self.first: int | None = None
        """The sequence number of the first byte; None if nothing was seen yet."""
        self.next = 0
        self.acknowledged = 0
        self.held: list[_Part] = []
        self.held_bytes = 0
        self.doubted_since: int | None = None
        self.doubted_at = 0
        """The position of the gap that is waited for since `doubted_since`. Another gap restarts the wait."""
        self.is_over = False

    def begin_again(self, sequence: int) -> None:
        self.first = self.next = self.acknowledged = sequence
        self.held = []
        self.held_bytes = 0

    def position(self, sequence: int) -> int:
        """The nearest of all positions with this sequence number."""
        if self.first is None:
            self.begin_again(sequence)
        return self.next + (sequence - self.next + _HALF) % _WHOLE - _HALF

    def acknowledge(self, sequence: int) -> int:
        """Note that the other side has everything before this sequence number. Returns its position; 0 if unknown."""
        if sequence < 0 or self.first is None:
            return 0
        position = self.position(sequence)
        if abs(position - self.next) > _FAR:
            return 0
        self.acknowledged = max(self.acknowledged, position)
        return position

    def lacks(self) -> bool:
        """Whether the other side has acknowledged bytes that were not reported yet."""
        return self.next < self.acknowledged

    def has_gap(self) -> bool:
        """Whether the next bytes haven't been seen here."""
        return self.held[0].begin > self.next if self.held else self.lacks()

    def hold(self, part: _Part) -> None:
        heappush(self.held, part)
        self.held_bytes += len(part.payload) + _PART_BYTES

    def release(self) -> _Part:
        part = heappop(self.held)
        self.held_bytes -= len(part.payload) + _PART_BYTES
        return part

    def finish(self) -> None:
        self.is_over = True
        self.held = []
        self.held_bytes = 0


def _behind_syn(segment: Segment) -> int:
    return (segment.sequence + 1) % _WHOLE
