"""Tracks members, their sessions and the records they hold, from the traffic.

Decides what a broker must believe after each turn, from its answer: an acknowledgement counts if it wasn't refused, a
session ends with its connection. Judges nothing: rules look at the steps that come out of here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kshare.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kshare.traffic.exchange import Exchange
from kshare.traffic.holdings import Judged, Lease, Member, Session, Standing
from kshare.traffic.ranges import Ranges
from kshare.traffic.turns import ACCEPT, CLOSING, GAP, OPENING, REJECT, RELEASE, RENEW, Acknowledged, Turn

_ENDS_SESSION = {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.SHARE_SESSION_LIMIT_REACHED}
_LEAVING = -1
_HELD_ALONE = {Standing.HELD}
_ONCE = {1}
_USUAL_TYPES = {bytes([kind]) for kind in (GAP, ACCEPT, RELEASE, REJECT)}


@dataclass(slots=True, eq=False)
class Step:
    """A turn with what was believed before it."""

    turn: Turn
    member: Member
    session: Session | None
    """As it is after the turn, or was before it ended."""
    previous_epoch: int | None
    """None: there was no session that we know of."""
    previous_ended: float
    judged: list[Judged]
    standings: set[Standing]
    """Those that occur in `judged`."""

    @property
    def is_in_order(self) -> bool:
        """Neither begins nor ends a session, and there is nothing about it alone that could be wrong."""
        turn, before = self.turn, self.previous_epoch
        return (
            before is not None
            and turn.epoch == before + 1 > OPENING
            and not (turn.error or turn.errors or turn.is_renewing)
            and self.standings <= _HELD_ALONE
            and self.previous_ended <= turn.exchange.asked_at
            and _do_ascend(turn.acknowledged)
            and {one.delivery_count for one in turn.acquired} <= _ONCE
        )


@dataclass(slots=True, eq=False)
class Beat:
    """A heartbeat with what was believed before it."""

    exchange: Exchange
    member: Member
    epoch: int
    error: int
    previous_at: float | None
    previous_ms: int


class Ledger:
    def __init__(self) -> None:
        self.members: dict[tuple[str, str], Member] = {}
        self._seen_on: dict[int, set[Member]] = {}
        """By connection."""
        self._with_holes: set[int] = set()
        self.closed_connections: set[int] = set()
        """Numbers of connections whose end was seen."""

    def turn(self, turn: Turn) -> Step:
        exchange = turn.exchange
        member = self._member(turn.group, turn.member, exchange)
        session = member.sessions.get(exchange.connection.server)
        number = exchange.connection.number
        if session and session.connection != number and number in self._with_holes:
            member.fall_silent(session.connection)
            session = None
        epoch, ended = (session.epoch, session.last_ended) if session else (None, 0.0)
        judged: list[Judged] = []
        for ack in turn.acknowledged:
            judged += member.judge(ack, session, exchange.asked_at)
        step = Step(turn, member, session, epoch, ended, judged, {one.standing for one in judged})
        _count(step)
        if turn.is_answered:
            self._apply(step)
        return step

    def beat(self, exchange: Exchange) -> Beat | None:
        request, response = exchange.request, exchange.response
        if not isinstance(request, ShareGroupHeartbeatRequest):
            return None
        member = self._member(request.group_id, request.member_id, exchange)
        beat = Beat(exchange, member, request.member_epoch, 0, member.heartbeat_at, member.heartbeat_ms)
        member.heartbeat_at = exchange.asked_at
        if request.member_epoch == _LEAVING:
            member.has_left = True
        elif isinstance(response, ShareGroupHeartbeatResponse):
            beat.error = response.error_code
            member.has_left = False
            member.heartbeat_ms = response.heartbeat_interval_ms or member.heartbeat_ms
            if response.assignment is not None:
                member.assignment = frozenset(
                    (topic.topic_id, number)
                    for topic in response.assignment.topic_partitions
                    for number in topic.partitions
                )
                member.assigned_at = exchange.ended_at
        return beat

    def hole(self, number: int) -> None:
        """Bytes of this connection are missing here: its members may have said anything meanwhile."""
        self._with_holes.add(number)
        for member in self._seen_on.get(number, ()):
            member.fall_silent(number)

    def connection_closed(self, number: int) -> list[tuple[Member, Session]]:
        """The sessions that end with it."""
        self.closed_connections.add(number)
        self._with_holes.discard(number)
        self._seen_on.pop(number, None)
        ended = [
            (member, session)
            for member in self.members.values()
            for session in list(member.sessions.values())
            if session.connection == number
        ]
        for member, session in ended:
            member.lose_session(session)
        return ended

    def sessions(self) -> Iterator[tuple[Member, Session]]:
        for member in self.members.values():
            for session in member.sessions.values():
                yield member, session

    def _member(self, group: str, member_id: str, exchange: Exchange) -> Member:
        key = (group, member_id)
        member = self.members.get(key)
        if member is None:
            member = self.members[key] = Member(group, member_id, exchange.client_id)
        self._seen_on.setdefault(exchange.connection.number, set()).add(member)
        return member

    # --- what a turn changes

    def _apply(self, step: Step) -> None:
        turn, member, session = step.turn, step.member, step.session
        exchange = turn.exchange
        if turn.error:
            if session and turn.error in _ENDS_SESSION:
                member.lose_session(session)
            return
        if turn.epoch == OPENING or session is None:
            if session:
                member.lose_session(session)
            server, number = exchange.connection.server, exchange.connection.number
            session = Session(server, number, turn.epoch != OPENING)
            member.sessions[server] = step.session = session
        session.connection = exchange.connection.number
        session.last_ended = exchange.ended_at
        session.epoch = turn.epoch
        self._settle(step, session)
        self._acquire(turn, member, session)
        if turn.fetch:
            for partition in turn.named:
                session.partitions.setdefault(partition, exchange.ended_at)
        for partition in turn.forgotten:
            session.partitions.pop(partition, None)
        if turn.epoch == CLOSING:
            member.end_session(session)

    def _settle(self, step: Step, session: Session) -> None:
        turn, member = step.turn, step.member
        refused = turn.refused()
        for partition, first, last, kind, standing, old in step.judged:
            held = session.held.get(partition)
            if partition in refused:
                if standing is Standing.EXPIRED and held:
                    held.take(first, last)
                    member.remember(partition, first, last, Standing.EXPIRED)
            elif kind != RENEW:
                if held:
                    held.take(first, last)
                member.remember(partition, first, last, Standing.SETTLED)
            elif old and held:
                deadline = turn.exchange.ended_at + turn.lock_ms / 1000
                held.put(first, last, Lease(old.acquired_at, deadline, old.delivery_count, old.renewals + 1))

    def _acquire(self, turn: Turn, member: Member, session: Session) -> None:
        if not turn.acquired:
            return
        now = turn.exchange.ended_at
        member.lock_ms = turn.lock_ms or member.lock_ms
        leases: dict[int, Lease] = {}
        for partition, first, last, count in turn.acquired:
            lease = leases.get(count)
            if lease is None:
                lease = leases[count] = Lease(now, now + turn.lock_ms / 1000, count)
            held = session.held.get(partition)
            if held is None:
                held = session.held[partition] = Ranges()
            held.put(first, last, lease)
            if past := member.past.get(partition):
                past.take(first, last)


def _do_ascend(acknowledged: list[Acknowledged]) -> bool:
    """Ranges of one usual type each, none of which ends behind the beginning of the next in its partition."""
    where, end = None, 0
    for partition, first, last, types in acknowledged:
        if types not in _USUAL_TYPES or last < first or (partition == where and first <= end):
            return False
        where, end = partition, last
    return True


def _count(step: Step) -> None:
    turn, member = step.turn, step.member
    if turn.fetch:
        member.fetches += 1
        member.longest_wait_ms = max(member.longest_wait_ms, turn.fetch.max_wait_ms)
    for _, first, last, count in turn.acquired:
        member.acquired += last - first + 1
        member.redelivered += last - first + 1 if count > 1 else 0
    refused = turn.refused()
    settled: dict[float, int] = {}
    for partition, first, last, kind, _, lease in step.judged:
        size = last - first + 1
        if turn.error or partition in refused:
            member.refused += size
            continue
        member.acknowledged[kind] = member.acknowledged.get(kind, 0) + size
        if lease and kind != RENEW:
            settled[lease.acquired_at] = settled.get(lease.acquired_at, 0) + size
    for acquired_at, size in settled.items():
        member.latencies.add(turn.exchange.asked_at - acquired_at, size)
