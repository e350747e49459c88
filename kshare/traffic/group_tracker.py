"""Tracks members, their sessions and the records they hold, from the traffic.

Derives the broker's state after each share exchange from its response: an acknowledgement counts if it wasn't refused,
a session ends with its connection. The linter's rules check the events that are returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kshare.protocol.acknowledge_types import FINAL, AcknowledgeType
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kshare.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kshare.traffic.exchange import Exchange
from kshare.traffic.members import AckStatus, CheckedAck, ObservedLock, ObservedMember, ObservedSession
from kshare.traffic.ranges import Ranges
from kshare.traffic.share_exchange import (
    CLOSING,
    OPENING,
    AckedRange,
    ShareExchange,
)

_ENDS_SESSION = {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.SHARE_SESSION_LIMIT_REACHED}
_LEAVING = -1
_HELD_ALONE = {AckStatus.HELD}
_ONCE = {1}
_RENEW = int(AcknowledgeType.RENEW)
_USUAL_TYPES = {bytes([kind]) for kind in FINAL}


@dataclass(slots=True, eq=False)
class ShareEvent:
    """A share exchange, with the state before it."""

    share: ShareExchange
    member: ObservedMember
    session: ObservedSession | None
    """The session after the exchange, or before it ended."""
    previous_epoch: int | None
    """None if no session was known."""
    previous_ended: float
    checked: list[CheckedAck]
    statuses: set[AckStatus]
    """The statuses that occur in `checked`."""

    @property
    def is_in_order(self) -> bool:
        """It doesn't begin or end a session, and nothing in the exchange itself can be wrong."""
        share, before = self.share, self.previous_epoch
        return (
            before is not None
            and share.epoch == before + 1 > OPENING
            and not (share.error or share.errors or share.is_renewing)
            and self.statuses <= _HELD_ALONE
            and self.previous_ended <= share.exchange.asked_at
            and _are_ascending(share.acknowledged)
            and {records.delivery_count for records in share.acquired} <= _ONCE
        )


@dataclass(slots=True, eq=False)
class HeartbeatEvent:
    """A heartbeat, with the state before it."""

    exchange: Exchange
    member: ObservedMember
    epoch: int
    error: int
    previous_at: float | None
    previous_ms: int


class GroupTracker:
    def __init__(self) -> None:
        self.members: dict[tuple[str, str], ObservedMember] = {}
        self._seen_on: dict[int, set[ObservedMember]] = {}
        """By connection."""
        self._with_holes: set[int] = set()
        self.closed_connections: set[int] = set()
        """Numbers of connections whose end was seen."""

    def share(self, share: ShareExchange) -> ShareEvent:
        exchange = share.exchange
        member = self._member(share.group, share.member, exchange)
        session = member.sessions.get(exchange.connection.server)
        number = exchange.connection.number
        if session and session.connection != number and number in self._with_holes:
            member.forget_connection(session.connection)
            session = None
        epoch, ended = (session.epoch, session.last_ended) if session else (None, 0.0)
        checked: list[CheckedAck] = []
        for ack in share.acknowledged:
            checked += member.check(ack, session, exchange.asked_at)
        event = ShareEvent(share, member, session, epoch, ended, checked, {ack.status for ack in checked})
        _count(event)
        if share.has_response:
            self._apply(event)
        return event

    def heartbeat_event(self, exchange: Exchange) -> HeartbeatEvent | None:
        request, response = exchange.request, exchange.response
        if not isinstance(request, ShareGroupHeartbeatRequest):
            return None
        member = self._member(request.group_id, request.member_id, exchange)
        heartbeat_event = HeartbeatEvent(
            exchange, member, request.member_epoch, 0, member.heartbeat_at, member.heartbeat_ms
        )
        member.heartbeat_at = exchange.asked_at
        if request.member_epoch == _LEAVING:
            member.has_left = True
        elif isinstance(response, ShareGroupHeartbeatResponse):
            heartbeat_event.error = response.error_code
            member.has_left = False
            member.heartbeat_ms = response.heartbeat_interval_ms or member.heartbeat_ms
            if response.assignment is not None:
                member.assignment = frozenset(
                    (topic.topic_id, number)
                    for topic in response.assignment.topic_partitions
                    for number in topic.partitions
                )
                member.assigned_at = exchange.ended_at
        return heartbeat_event

    def missing_bytes(self, number: int) -> None:
        """Bytes of this connection are missing here: the state of its members is unknown from now on."""
        self._with_holes.add(number)
        for member in self._seen_on.get(number, ()):
            member.forget_connection(number)

    def connection_closed(self, number: int) -> list[tuple[ObservedMember, ObservedSession]]:
        """Returns the sessions that end with the connection."""
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

    def sessions(self) -> Iterator[tuple[ObservedMember, ObservedSession]]:
        for member in self.members.values():
            for session in member.sessions.values():
                yield member, session

    def _member(self, group: str, member_id: str, exchange: Exchange) -> ObservedMember:
        key = (group, member_id)
        member = self.members.get(key)
        if member is None:
            member = self.members[key] = ObservedMember(group, member_id, exchange.client_id)
        self._seen_on.setdefault(exchange.connection.number, set()).add(member)
        return member

    # --- what a share exchange changes

    def _apply(self, event: ShareEvent) -> None:
        share, member, session = event.share, event.member, event.session
        exchange = share.exchange
        if share.error:
            if session and share.error in _ENDS_SESSION:
                member.lose_session(session)
            return
        if share.epoch == OPENING or session is None:
            if session:
                member.lose_session(session)
            server, number = exchange.connection.server, exchange.connection.number
            session = ObservedSession(server, number, share.epoch != OPENING)
            member.sessions[server] = event.session = session
        session.connection = exchange.connection.number
        session.last_ended = exchange.ended_at
        session.epoch = share.epoch
        self._settle(event, session)
        self._acquire(share, member, session)
        if share.fetch:
            for partition in share.named:
                session.partitions.setdefault(partition, exchange.ended_at)
        for partition in share.forgotten:
            session.partitions.pop(partition, None)
        if share.epoch == CLOSING:
            member.end_session(session)

    def _settle(self, event: ShareEvent, session: ObservedSession) -> None:
        share, member = event.share, event.member
        refused = share.refused()
        for partition, first, last, kind, status, old in event.checked:
            held = session.held.get(partition)
            if partition in refused:
                if status is AckStatus.EXPIRED and held:
                    held.take(first, last)
                    member.remember(partition, first, last, AckStatus.EXPIRED)
            elif kind != _RENEW:
                if held:
                    held.take(first, last)
                member.remember(partition, first, last, AckStatus.SETTLED)
            elif old and held:
                deadline = share.exchange.ended_at + share.lock_ms / 1000
                held.put(
                    first, last, ObservedLock(old.acquired_at, deadline, old.delivery_count, old.renewals + 1)
                )

    def _acquire(self, share: ShareExchange, member: ObservedMember, session: ObservedSession) -> None:
        if not share.acquired:
            return
        now = share.exchange.ended_at
        member.lock_ms = share.lock_ms or member.lock_ms
        leases: dict[int, ObservedLock] = {}
        for partition, first, last, count in share.acquired:
            lease = leases.get(count)
            if lease is None:
                lease = leases[count] = ObservedLock(now, now + share.lock_ms / 1000, count)
            held = session.held.get(partition)
            if held is None:
                held = session.held[partition] = Ranges()
            held.put(first, last, lease)
            if past := member.past.get(partition):
                past.take(first, last)


def _are_ascending(acknowledged: list[AckedRange]) -> bool:
    """Whether each range has one usual type, and the ranges of a partition ascend without overlap."""
    where, end = None, 0
    for partition, first, last, types in acknowledged:
        if types not in _USUAL_TYPES or last < first or (partition == where and first <= end):
            return False
        where, end = partition, last
    return True


def _count(event: ShareEvent) -> None:
    share, member = event.share, event.member
    if share.fetch:
        member.fetches += 1
        member.longest_wait_ms = max(member.longest_wait_ms, share.fetch.max_wait_ms)
    for _, first, last, count in share.acquired:
        member.acquired += last - first + 1
        member.redelivered += last - first + 1 if count > 1 else 0
    refused = share.refused()
    settled: dict[float, int] = {}
    for partition, first, last, kind, _, lease in event.checked:
        size = last - first + 1
        if share.error or partition in refused:
            member.refused += size
            continue
        member.acknowledged[kind] = member.acknowledged.get(kind, 0) + size
        if lease and kind != _RENEW:
            settled[lease.acquired_at] = settled.get(lease.acquired_at, 0) + size
    for acquired_at, size in settled.items():
        member.latencies.add(share.exchange.asked_at - acquired_at, size)
