"""Share sessions: epochs in sequence, one request at a time, explicit close."""

from __future__ import annotations

from collections import deque

from kshare.protocol.error_codes import ErrorCode, error_name
from kshare.traffic.findings import Level, Remark, Remarks, Rule
from kshare.traffic.holdings import Member, Session
from kshare.traffic.ledger import Step
from kshare.traffic.names import Names
from kshare.traffic.turns import CLOSING, OPENING

_HIGHEST_EPOCH = 2**31 - 1
_RESETS = 3
_RESETS_WITHIN_S = 60.0


class SkippedEpoch(Rule):
    name = "skipped-epoch"
    level = Level.FORBIDDEN
    about = (
        "Each request of a share session carries the epoch of the one before plus one; 0 opens it, -1 closes it. "
        "The broker refuses any other with INVALID_SHARE_SESSION_EPOCH. Count a request only when its answer came."
    )

    def on_turn(self, step: Step) -> Remarks:
        turn, before = step.turn, step.previous_epoch
        if before is None or turn.epoch in (OPENING, CLOSING):
            return
        expected = 1 if before == _HIGHEST_EPOCH else before + 1
        if turn.epoch != expected:
            yield Remark(step.member, f"epoch {turn.epoch} behind {before}: it should be {expected}")


class AcksAtOpening(Rule):
    name = "acks-at-epoch-0"
    level = Level.FORBIDDEN
    about = (
        "The request that opens a session may carry no acknowledgements: nothing has been acquired in it yet. What is "
        "left from the session before is lost; report it to the user."
    )

    def on_turn(self, step: Step) -> Remarks:
        if step.turn.epoch == OPENING and step.turn.acknowledged:
            acks = step.turn.acknowledged
            yield Remark(
                step.member,
                f"{len(acks)} ranges acknowledged at epoch 0, from {self.where(acks[0].partition)} "
                f"{acks[0].first} on",
            )


class RequestsAtOnce(Rule):
    name = "requests-at-once"
    level = Level.FORBIDDEN
    about = (
        "The requests of a session go one after another. A second one sent while the first is under way makes the "
        "first end with INVALID_SHARE_SESSION_EPOCH, at the end of its wait."
    )

    def on_turn(self, step: Step) -> Remarks:
        asked = step.turn.exchange.asked_at
        if step.previous_epoch is not None and asked < step.previous_ended:
            early = (step.previous_ended - asked) * 1000
            yield Remark(step.member, f"sent {early:.0f} ms before the one before it was answered")


class SessionResets(Rule):
    name = "session-resets"
    level = Level.HARMFUL
    about = (
        "With each reset all that was acquired goes back to the group and comes again, with a higher delivery count. "
        "Look for what ends the sessions: connections that break, brokers that restart, requests sent twice."
    )

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._openings: dict[tuple[Member, str], deque[float]] = {}

    def on_turn(self, step: Step) -> Remarks:
        turn = step.turn
        if turn.epoch != OPENING or not turn.is_answered:
            return
        now = turn.exchange.asked_at
        key = (step.member, turn.exchange.connection.server)
        times = self._openings.setdefault(key, deque(maxlen=_RESETS + 1))
        times.append(now)
        if len(times) > _RESETS and now - times[0] < _RESETS_WITHIN_S:
            yield Remark(
                step.member, f"opened {len(times)} times within {now - times[0]:.0f} s on {key[1]}", key[1]
            )


class DeadSession(Rule):
    name = "dead-session"
    level = Level.FORBIDDEN
    about = (
        "Behind SHARE_SESSION_NOT_FOUND there is no session any more: the next request opens one, with epoch 0. "
        "Going on with the old epochs is refused for ever."
    )

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._dead: dict[tuple[Member, str], int] = {}
        """With the holes until then: another session may have begun in one that came later."""

    def on_turn(self, step: Step) -> Remarks:
        turn = step.turn
        key = (step.member, turn.exchange.connection.server)
        if self._dead.get(key) == step.member.holes and turn.epoch not in (OPENING, CLOSING):
            yield Remark(step.member, f"epoch {turn.epoch} in a session that the broker has disowned")
        if turn.error == ErrorCode.SHARE_SESSION_NOT_FOUND:
            self._dead[key] = step.member.holes
        elif turn.is_answered:
            self._dead.pop(key, None)


class SessionLeftOpen(Rule):
    name = "session-left-open"
    level = Level.HARMFUL
    about = (
        "The connection ended without a last request at epoch -1. The broker drops the session and all that it holds, "
        "and counts a delivery for each record. Close sessions; if it wasn't you, look for who cuts connections."
    )

    def on_closed(self, member: Member, session: Session, now: float) -> Remarks:
        held = sum(count for _, count, lease in session.leases() if lease.deadline > now)
        yield Remark(
            member, f"connection {session.connection} ended at epoch {session.epoch} with {held} records held"
        )


class TurnedAway(Rule):
    name = "turned-away"
    level = Level.HARMFUL
    about = "The broker refused a request as a whole; what this means is written in the message of the error."

    def on_turn(self, step: Step) -> Remarks:
        if step.turn.error:
            yield Remark(
                step.member, f"{error_name(step.turn.error)} at epoch {step.turn.epoch}", step.turn.error
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
