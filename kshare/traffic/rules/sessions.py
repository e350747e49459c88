"""Share sessions: epochs in sequence, one request at a time, explicit close."""

from __future__ import annotations

from collections import deque

from kshare.protocol.error_codes import ErrorCode, error_name
from kshare.traffic.findings import LinterRule, Severity, Violation, Violations
from kshare.traffic.group_tracker import ShareEvent
from kshare.traffic.members import ObservedMember, ObservedSession
from kshare.traffic.names import Names
from kshare.traffic.share_exchange import CLOSING, OPENING

_HIGHEST_EPOCH = 2**31 - 1
_RESETS = 3
_RESETS_WITHIN_S = 60.0


class SkippedEpoch(LinterRule):
    name = "skipped-epoch"
    level = Severity.PROTOCOL_ERROR
    about = (
        "Each request of a share session has the epoch of the previous one plus one; 0 opens it, -1 closes it. The "
        "broker refuses any other with INVALID_SHARE_SESSION_EPOCH. Increase the epoch only when a response arrives."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        share, before = event.share, event.previous_epoch
        if before is None or share.epoch in (OPENING, CLOSING):
            return
        expected = 1 if before == _HIGHEST_EPOCH else before + 1
        if share.epoch != expected:
            yield Violation(event.member, f"epoch {share.epoch} after {before}: it should be {expected}")


class AcksAtOpening(LinterRule):
    name = "acks-at-epoch-0"
    level = Severity.PROTOCOL_ERROR
    about = (
        "The request that opens a session must not contain acknowledgements: nothing has been acquired in it yet. "
        "Acknowledgements left from the previous session are lost; report them to the user."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        if event.share.epoch == OPENING and event.share.acknowledged:
            acks = event.share.acknowledged
            yield Violation(
                event.member,
                f"{len(acks)} ranges acknowledged at epoch 0, from {self.where(acks[0].partition)} "
                f"{acks[0].first} on",
            )


class RequestsAtOnce(LinterRule):
    name = "requests-at-once"
    level = Severity.PROTOCOL_ERROR
    about = (
        "Requests of a session must be sent one after another. If a second one is sent while the first is under way, "
        "the first one fails with INVALID_SHARE_SESSION_EPOCH, at the end of its wait."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        asked_at = event.share.exchange.asked_at
        if event.previous_epoch is not None and asked_at < event.previous_ended:
            early = (event.previous_ended - asked_at) * 1000
            yield Violation(event.member, f"sent {early:.0f} ms before the response to the previous one")


class SessionResets(LinterRule):
    name = "session-resets"
    level = Severity.HARMFUL
    about = (
        "With each reset, all acquired records are released and redelivered with a higher delivery count. Find out "
        "what ends the sessions: connections that break, brokers that restart, requests sent twice."
    )

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._openings: dict[tuple[ObservedMember, str], deque[float]] = {}

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        share = event.share
        if share.epoch != OPENING or not share.has_response:
            return
        now = share.exchange.asked_at
        key = (event.member, share.exchange.connection.server)
        times = self._openings.setdefault(key, deque(maxlen=_RESETS + 1))
        times.append(now)
        if len(times) > _RESETS and now - times[0] < _RESETS_WITHIN_S:
            yield Violation(
                event.member, f"opened {len(times)} times within {now - times[0]:.0f} s on {key[1]}", key[1]
            )


class DeadSession(LinterRule):
    name = "dead-session"
    level = Severity.PROTOCOL_ERROR
    about = (
        "After SHARE_SESSION_NOT_FOUND the session no longer exists: the next request must open a new one, with epoch "
        "0. Requests that continue the old epochs are always refused."
    )

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._dead: dict[tuple[ObservedMember, str], int] = {}
        """With the member's `holes` at that time: in a later one, a new session may have begun unseen."""

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        share = event.share
        key = (event.member, share.exchange.connection.server)
        if self._dead.get(key) == event.member.holes and share.epoch not in (OPENING, CLOSING):
            yield Violation(event.member, f"epoch {share.epoch} in a session that no longer exists")
        if share.error == ErrorCode.SHARE_SESSION_NOT_FOUND:
            self._dead[key] = event.member.holes
        elif share.has_response:
            self._dead.pop(key, None)


class SessionLeftOpen(LinterRule):
    name = "session-left-open"
    level = Severity.HARMFUL
    about = (
        "The connection ended without a last request at epoch -1. The broker ends the session and releases its "
        "records; the delivery counts. Close sessions; if the client didn't end the connection, find out what did."
    )

    def on_closed(self, member: ObservedMember, session: ObservedSession, now: float) -> Violations:
        held = sum(count for _, count, lease in session.leases() if lease.deadline > now)
        yield Violation(
            member, f"connection {session.connection} ended at epoch {session.epoch} with {held} records held"
        )


class TurnedAway(LinterRule):
    name = "turned-away"
    level = Severity.HARMFUL
    about = (
        "The broker refused a whole request; the error code and the error message in the response say why."
    )

    def on_share_exchange(self, event: ShareEvent) -> Violations:
        if event.share.error:
            yield Violation(
                event.member,
                f"{error_name(event.share.error)} at epoch {event.share.epoch}",
                event.share.error,
            )


RULES = (
    SkippedEpoch,
    AcksAtOpening,
    RequestsAtOnce,
    SessionResets,
    DeadSession,
    SessionLeftOpen,
    TurnedAway,
)
