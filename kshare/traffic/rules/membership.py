"""Membership: heartbeats in time, valid member ids, leaving the group."""

from __future__ import annotations

import re

from kshare.protocol.error_codes import ErrorCode
from kshare.traffic.findings import LinterRule, Severity, Violation, Violations
from kshare.traffic.group_tracker import GroupTracker, HeartbeatEvent, ShareEvent
from kshare.traffic.members import ObservedMember
from kshare.traffic.names import Names
from kshare.traffic.share_exchange import CLOSING

_LATE = 3.0
"""How many intervals may pass between heartbeats. Brokers wait for about nine."""
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")


class LateHeartbeats(LinterRule):
    name = "late-heartbeats"
    level = Severity.HARMFUL
    about = (
        "Heartbeats come later than the coordinator asks for. After the session timeout it removes the member from the "
        "group and reassigns its partitions. Heartbeats must not wait for the processing of records."
    )

    def on_heartbeat(self, heartbeat_event: HeartbeatEvent) -> Violations:
        if (
            heartbeat_event.previous_at is None
            or not heartbeat_event.previous_ms
            or heartbeat_event.epoch <= 0
        ):
            return
        gap = heartbeat_event.exchange.asked_at - heartbeat_event.previous_at
        if gap * 1000 > _LATE * heartbeat_event.previous_ms:
            yield Violation(
                heartbeat_event.member,
                f"{gap:.1f} s after the previous one; the interval is {heartbeat_event.previous_ms / 1000:g} s",
            )


class MemberId(LinterRule):
    name = "member-id"
    level = Severity.HARMFUL
    about = (
        "Member ids are UUIDs in Kafka's form: 22 letters of base64, with - and _ for + and /. For any other id, "
        "Kafka 4.1 responds to ShareFetch with UNKNOWN_SERVER_ERROR; later releases accept it."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        is_refused = event.share.error == ErrorCode.UNKNOWN_SERVER_ERROR
        if is_refused and not _UUID.fullmatch(event.share.member):
            yield Violation(event.member, f"member id {event.share.member!r}", "all")


class GroupNotLeft(LinterRule):
    name = "group-not-left"
    level = Severity.HARMFUL
    sees_all_exchanges = True
    about = (
        "The member closed its sessions and connections but never left the group: the coordinator keeps its partitions "
        "assigned until the session timeout. Send a last heartbeat with member epoch -1."
    )

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._closed: dict[ObservedMember, None] = {}
        self._coordinator_connections: dict[ObservedMember, int] = {}
        """Connection of each member's last heartbeat. If the capture ends before this is closed, the member may have
        left the group unseen."""

    def on_heartbeat(self, heartbeat_event: HeartbeatEvent) -> Violations:
        self._coordinator_connections[heartbeat_event.member] = heartbeat_event.exchange.connection.number
        return ()

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        if event.share.epoch == CLOSING:
            self._closed[event.member] = None
        elif event.share.fetch:
            self._closed.pop(event.member, None)
        return ()

    def on_finish(self, tracker: GroupTracker, now: float) -> Violations:
        for member in self._closed:
            is_over = self._coordinator_connections.get(member) in tracker.closed_connections
            if is_over and member.heartbeat_at is not None and not member.has_left and not member.sessions:
                yield Violation(member, "sessions closed, group not left")


RULES = (LateHeartbeats, MemberId, GroupNotLeft)
