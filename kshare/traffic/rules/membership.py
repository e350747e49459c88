"""Membership: heartbeats in time, valid member ids, leaving the group."""

from __future__ import annotations

import re

from kshare.protocol.error_codes import ErrorCode
from kshare.traffic.findings import Level, Remark, Remarks, Rule
from kshare.traffic.holdings import Member
from kshare.traffic.ledger import Beat, Ledger, Step
from kshare.traffic.names import Names
from kshare.traffic.turns import CLOSING

_LATE = 3.0
"""Times the interval: brokers wait for about nine of them."""
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")


class LateHeartbeats(Rule):
    name = "late-heartbeats"
    level = Level.HARMFUL
    about = (
        "Heartbeats come later than the coordinator asks for. Behind the session timeout it takes the member for dead "
        "and gives its partitions away. Heartbeats must not wait for the work on records."
    )

    def on_beat(self, beat: Beat) -> Remarks:
        if beat.previous_at is None or not beat.previous_ms or beat.epoch <= 0:
            return
        gap = beat.exchange.asked_at - beat.previous_at
        if gap * 1000 > _LATE * beat.previous_ms:
            yield Remark(
                beat.member,
                f"{gap:.1f} s after the one before, where {beat.previous_ms / 1000:g} s are asked for",
            )


class MemberId(Rule):
    name = "member-id"
    level = Level.HARMFUL
    about = (
        "Member ids are UUIDs in Kafka's form: 22 letters of base64, with - and _ for + and /. Kafka 4.1 answers "
        "ShareFetch with UNKNOWN_SERVER_ERROR for any other; later releases take them."
    )

    def on_turn(self, step: Step) -> Remarks:
        is_refused = step.turn.error == ErrorCode.UNKNOWN_SERVER_ERROR
        if is_refused and not _UUID.fullmatch(step.turn.member):
            yield Remark(step.member, f"member id {step.turn.member!r}", "all")


class GroupNotLeft(Rule):
    name = "group-not-left"
    level = Level.HARMFUL
    hears_all_turns = True
    about = (
        "The member closed its sessions and connections but never left the group: the coordinator keeps its partitions "
        "assigned until the session timeout. Send a last heartbeat with member epoch -1."
    )

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._closed: dict[Member, None] = {}
        self._coordinator_connections: dict[Member, int] = {}
        """Connection of each member's last heartbeat. If the capture was cut before it was closed, the member may have
        left unseen."""

    def on_beat(self, beat: Beat) -> Remarks:
        self._coordinator_connections[beat.member] = beat.exchange.connection.number
        return ()

    def on_turn(self, step: Step) -> Remarks:
        if step.turn.epoch == CLOSING:
            self._closed[step.member] = None
        elif step.turn.fetch:
            self._closed.pop(step.member, None)
        return ()

    def on_finish(self, ledger: Ledger, now: float) -> Remarks:
        for member in self._closed:
            is_over = self._coordinator_connections.get(member) in ledger.closed_connections
            if is_over and member.heartbeat_at is not None and not member.has_left and not member.sessions:
                yield Remark(member, "sessions closed, group not left")


RULES = (LateHeartbeats, MemberId, GroupNotLeft)
