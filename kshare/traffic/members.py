"""What a member has acquired, and the status of each offset that it acknowledges.

Decides whether an acknowledged record was held, and if not, why. Goes only by the observed traffic. A lock that counts
as expired here has certainly expired at the broker, where it began before the response was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from kshare.traffic.latencies import Latencies
from kshare.traffic.ranges import Ranges
from kshare.traffic.share_exchange import AckedRange, Partition

_MOST_REMEMBERED = 500
"""How many ranges that are no longer held to remember per partition: only for explanations, so old ones are dropped."""


class AckStatus(Enum):
    """The status of acknowledged offsets at the time of the request."""

    HELD = auto()
    EXPIRED = auto()
    """The lock had expired."""
    SETTLED = auto()
    """Already acknowledged."""
    LOST = auto()
    """Acquired in a session that has ended."""
    ELSEWHERE = auto()
    """Held, but from another broker."""
    NEVER = auto()
    """Not acquired by this member."""
    UNSEEN = auto()
    """Unknown: the session began before we saw its traffic."""


@dataclass(slots=True, eq=False)
class ObservedLock:
    """The lock of records that were acquired by one response with the same delivery count."""

    acquired_at: float
    deadline: float
    delivery_count: int
    renewals: int = 0
    is_reported: bool = False


class CheckedAck(NamedTuple):
    """Part of an acknowledgement with one type and one status."""

    partition: Partition
    first: int
    last: int
    type: int
    status: AckStatus
    lease: ObservedLock | None

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True, eq=False)
class ObservedSession:
    """A share session, as far as it was observed."""

    server: str
    connection: int
    is_partial: bool
    """Its beginning wasn't seen."""
    epoch: int = 0
    """The epoch of the last request that the broker accepted."""
    last_ended: float = 0.0
    partitions: dict[Partition, float] = field(default_factory=dict)
    """The partitions in the broker's session, and since when."""
    held: dict[Partition, Ranges[ObservedLock]] = field(default_factory=dict)

    def leases(self) -> Iterator[tuple[Partition, int, ObservedLock]]:
        """Partition, number of records, lease."""
        for partition, ranges in self.held.items():
            for piece in ranges:
                yield partition, piece.size, piece.value


_NONE_HELD: Final = Ranges[ObservedLock]()
_NO_PAST: Final = Ranges[AckStatus]()


@dataclass(slots=True, eq=False)
class ObservedMember:
    group: str
    id: str
    client_id: str | None
    sessions: dict[str, ObservedSession] = field(default_factory=dict)
    past: dict[Partition, Ranges[AckStatus]] = field(default_factory=dict)
    heartbeat_at: float | None = None
    heartbeat_ms: int = 0
    assignment: frozenset[Partition] | None = None
    assigned_at: float = 0.0
    has_left: bool = False
    fetches: int = 0
    acquired: int = 0
    redelivered: int = 0
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Records by type."""
    refused: int = 0
    resets: int = 0
    lock_ms: int = 0
    holes: int = 0
    """How often bytes were missing of this member's connections."""
    longest_wait_ms: int = 0
    """The longest MaxWaitMs of its fetches."""
    latencies: Latencies = field(default_factory=Latencies)

    def check(self, ack: AckedRange, session: ObservedSession | None, now: float) -> list[CheckedAck]:
        found: list[CheckedAck] = []
        partition = ack.partition
        held = session.held.get(partition, _NONE_HELD) if session else _NONE_HELD
        for run_first, run_last, kind in ack.runs():
            for first, last, lease in held.overlapping(run_first, run_last):
                if lease is not None:
                    status = AckStatus.EXPIRED if now > lease.deadline else AckStatus.HELD
                    found.append(CheckedAck(partition, first, last, kind, status, lease))
                else:
                    found += self._unheld(partition, first, last, kind, session)
        return found

    def _unheld(
        self, partition: Partition, first: int, last: int, kind: int, session: ObservedSession | None
    ) -> Iterator[CheckedAck]:
        past = self.past.get(partition, _NO_PAST)
        unseen = session is None or session.is_partial
        for piece in past.overlapping(first, last):
            status = piece.value
            if status is None and self._is_held_elsewhere(partition, piece.first, session):
                status = AckStatus.ELSEWHERE
            if status is None:
                status = AckStatus.UNSEEN if unseen else AckStatus.NEVER
            yield CheckedAck(partition, piece.first, piece.last, kind, status, None)

    def _is_held_elsewhere(self, partition: Partition, offset: int, session: ObservedSession | None) -> bool:
        return any(
            other is not session
            and partition in other.held
            and other.held[partition].overlapping(offset, offset)[0].value is not None
            for other in self.sessions.values()
        )

    def remember(self, partition: Partition, first: int, last: int, status: AckStatus) -> None:
        """Remembers why these offsets are no longer held."""
        past = self.past.get(partition)
        if past is None:
            past = self.past[partition] = Ranges(_MOST_REMEMBERED)
        past.put(first, last, status)

    def end_session(self, session: ObservedSession) -> None:
        """All records held through the session are released."""
        for partition, ranges in session.held.items():
            for piece in ranges:
                self.remember(partition, piece.first, piece.last, AckStatus.LOST)
        if self.sessions.get(session.server) is session:
            del self.sessions[session.server]

    def forget_connection(self, number: int) -> None:
        """Bytes of this connection are missing: the state of its sessions and their records is unknown now."""
        self.holes += 1
        self.heartbeat_at = None
        self.past.clear()
        for session in list(self.sessions.values()):
            if session.connection == number:
                del self.sessions[session.server]

    def lose_session(self, session: ObservedSession) -> None:
        """Ends a session that wasn't closed."""
        self.end_session(session)
        self.resets += 1
