"""Membership: how one consumer becomes, stays and ceases to be a member of a share group.

All of it is one request, ShareGroupHeartbeat, sent to the group's coordinator. Its epoch says what it means: 0 joins,
-1 leaves, anything else repeats what the coordinator answered last. An answer may carry an assignment, which is always
the whole of it; no assignment means that it hasn't changed. Only what changed is told, everything when joining. What
isn't certain to have arrived is told again: a heartbeat that tells everything is answered with the assignment, so one
that was lost with an answer is made good by the next.

    state    | event                                   | next     | effect
    ---------+-----------------------------------------+----------+------------------------------------------------
    joining  | answer without error                    | stable   | Joined; asks again soon, for the assignment
    joining  | FENCED_MEMBER_EPOCH                     | clearing | 4.1 still knows us, by an epoch that we don't
    joining  | GROUP_MAX_SIZE_REACHED                  | joining  | GroupFull; again later, a place may become free
    joining  | GROUP_ID_NOT_FOUND                      | failed   | the name belongs to a group of another type
    clearing | heartbeat                               | clearing | leaves, to be able to join
    clearing | answer, UNKNOWN_MEMBER_ID               | joining  |
    stable   | answer without error                    | stable   | Assigned, if the assignment is another one
    stable   | UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, | joining  | Lost; joins again at once under the same id
             | GROUP_ID_NOT_FOUND                      |          |
    stable   | subscribe                               | stable   | told at once; then asks again soon
    these 3  | NOT_COORDINATOR and its like, no answer | same     | looks for the coordinator after a pause
    these 3  | another error that passes               | same     | again after a pause, each longer than the last
    these 3  | an error that stays                     | failed   | Failed; permissions, versions, our own mistakes
    any      | leave                                   | leaving  | left at once if no broker ever heard of us
    leaving  | heartbeat                               | leaving  | leaves
    leaving  | any answer, no answer                   | left     | the coordinator drops silent members by itself
    any      | answer to a request that was given up   | same     | dropped

The coordinator is looked for before the first heartbeat, always: on a fresh cluster, asking for it is what makes it.

Decides when to speak with the coordinator, what to say and what its answer means. Never decides what to do with the
assignment, and never how long silence may last: only an answer tells whether the group still counts us in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kshare.errors import BrokerError, ConfigError
from kshare.protocol.error_codes import RETRIABLE, ErrorCode
from kshare.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kshare.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kshare.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kshare.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

_JOIN, _LEAVE = 0, -1
_FORGOTTEN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
_ELSEWHERE = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
_PASSES = RETRIABLE | {
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNKNOWN_SERVER_ERROR,  # a fault inside the coordinator says nothing of us
}


class State(Enum):
    JOINING = "joining"
    CLEARING = "clearing"
    STABLE = "stable"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between heartbeats when it isn't the coordinator who names them."""

    first_soon: float = 0.1
    longest_soon: float = 0.2
    """Kafka assigns a second after the join: so one asks just after that, not just before."""
    soon_for: float = 4.0
    """How long an assignment is asked for soon; where none comes, there may be more members than partitions."""
    first_pause: float = 0.1
    longest_pause: float = 2.0
    """Pauses after errors double up to this."""


USUAL_PACE = Pace()


class Joined(NamedTuple):
    """The coordinator counts us in."""

    is_again: bool


class Assigned(NamedTuple):
    """The whole new assignment. Metadata may not know its topic ids yet; it isn't sent a second time."""

    partitions: Mapping[bytes, frozenset[int]]


class Lost(NamedTuple):
    """The group went on without us: the assignment is void. Share sessions, and what is acquired in them, live on."""

    error: BrokerError


class GroupFull(NamedTuple):
    """No place in the group; asked again at `retry_at`."""

    error: BrokerError
    retry_at: float


class Failed(NamedTuple):
    """Nothing that waiting would heal."""

    error: BrokerError


class Coordinator(NamedTuple):
    node: int
    host: str
    port: int


Event = Joined | Assigned | Lost | GroupFull | Failed
Question = FindCoordinatorRequest | ShareGroupHeartbeatRequest


class Membership:
    """One member. `member_id` is a UUID in Kafka's base64 form; `jitter` stretches this member's pauses."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        topics: Iterable[str],
        rack_id: str | None = None,
        pace: Pace = USUAL_PACE,
        jitter: float = 1.0,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.state = State.JOINING
        self.assignment: Mapping[bytes, frozenset[int]] = {}
        self.coordinator: Coordinator | None = None
        self.trouble: BrokerError | None = None
        """What the coordinator last refused with, until it agrees to something."""
        self._topics = _checked(topics)
        self._rack_id = rack_id
        self._pace = pace
        self._jitter = jitter
        self.member_epoch = _JOIN
        self._told: list[str] = []
        self._is_certain = False  # that the coordinator has read what we told
        self._under_way: Question | None = None
        self._due = float("-inf")
        self._failures = 0
        self._soon_until = float("-inf")
        self._soon = pace.first_soon
        self._was_member = False
        self._may_be_known = False

    # --- what to say

    @property
    def wake_at(self) -> float | None:
        """When there is something to send; None while an answer is awaited, and when all is over."""
        if self._under_way is not None or self.state in (State.LEFT, State.FAILED):
            return None
        return self._due

    def find_coordinator(self, now: float) -> FindCoordinatorRequest | None:
        """Any broker can answer this."""
        if self.coordinator is not None or not self._is_due(now):
            return None
        request = FindCoordinatorRequest(coordinator_keys=[self.group_id])
        self._under_way = request
        return request

    def next_heartbeat(self, now: float) -> ShareGroupHeartbeatRequest | None:
        """For the coordinator; hand it back to `on_response` with its answer."""
        if self.coordinator is None or not self._is_due(now):
            return None
        is_going = self.state in (State.LEAVING, State.CLEARING)
        request = ShareGroupHeartbeatRequest(
            self.group_id, self.member_id, _LEAVE if is_going else self.member_epoch
        )
        if not is_going and (self._topics != self._told or not self._is_certain):
            request.subscribed_topic_names = self._topics
            request.rack_id = None if self._is_certain else self._rack_id
        self._may_be_known = True
        self._under_way = request
        return request

    def subscribe(self, topics: Iterable[str], now: float) -> None:
        """Want these topics from now on, and no others."""
        self._topics = _checked(topics)
        if self.state is State.STABLE and not self._failures and self._topics != self._told:
            self._due = now

    def leave(self, now: float) -> None:
        """Go; doesn't wait for what is under way. Left when `state` says so, even if nobody answers."""
        if self.state is State.LEFT or not self._may_be_known:
            self.state = State.LEFT
        elif self.state is not State.LEAVING:
            self.state = State.LEAVING
            self._under_way = None
            self._due = now

    def _is_due(self, now: float) -> bool:
        return self.wake_at is not None and now >= self.wake_at

    # --- what was answered

    def on_coordinator(
        self, request: FindCoordinatorRequest, response: FindCoordinatorResponse, now: float
    ) -> list[Event]:
        if request is not self._under_way:
            return []
        self._under_way = None
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            return self._on_error(found.error_code, found.error_message, now)
        self.coordinator = Coordinator(found.node_id, found.host, found.port)
        self._due = now
        return []

    def on_response(
        self, request: ShareGroupHeartbeatRequest, response: ShareGroupHeartbeatResponse, now: float
    ) -> list[Event]:
        if request is not self._under_way:
            return []
        self._under_way = None
        if response.error_code:
            return self._on_error(response.error_code, response.error_message, now)
        self.trouble = None
        if self.state is State.LEAVING:
            self.state = State.LEFT
            return []
        if self.state is State.CLEARING:
            self.state, self._due = State.JOINING, now
            return []
        return self._on_agreement(request.subscribed_topic_names, response, now)

    def on_no_answer(self, now: float) -> None:
        """The connection ended, with a request under way or not, or the answer took too long.

        Whether the request was carried out is open, and the coordinator may be another one by now.
        """
        self.coordinator = None
        if self._under_way is not None:
            self._under_way = None
            self._is_certain = False
            self._retry(now)

    def _on_agreement(
        self, names: list[str] | None, response: ShareGroupHeartbeatResponse, now: float
    ) -> list[Event]:
        events: list[Event] = []
        is_join = self.state is State.JOINING
        if is_join:
            events.append(Joined(is_again=self._was_member))
            self.state, self._was_member = State.STABLE, True
        self.member_epoch, self._failures = response.member_epoch, 0
        rows = response.assignment.topic_partitions if response.assignment else []
        if is_join or names not in (None, self._told):
            self._soon, self._soon_until = self._pace.first_soon, now + self._pace.soon_for
        if rows and (is_join or names is None):  # else it may be an echo of what was assigned before
            self._soon_until = now
        if names is not None:
            self._told, self._is_certain = names, True
        fresh = {topic.topic_id: frozenset(topic.partitions) for topic in rows}
        if response.assignment is not None and fresh != self.assignment:
            self.assignment = fresh
            events.append(Assigned(fresh))
        self._schedule(response.heartbeat_interval_ms / 1000, now)
        return events

    def _schedule(self, interval: float, now: float) -> None:
        """After an agreement: at once with news of our own, soon while an assignment is expected, else as told."""
        pause = max(interval, self._pace.longest_soon)
        if self._topics != self._told:
            pause = 0.0
        elif now < self._soon_until:
            pause = min(pause, self._soon)
            self._soon = min(self._soon * 1.5, self._pace.longest_soon)
        self._due = now + pause

    # --- what was refused

    def _on_error(self, code: int, message: str | None, now: float) -> list[Event]:
        error = self.trouble = BrokerError(code, f"share group {self.group_id!r}", message)
        if code in _FORGOTTEN and self.state is State.STABLE:
            return self._rejoin(error, now)
        if code in _FORGOTTEN and self.state is State.CLEARING:
            self.state, self._due = State.JOINING, now
            return []
        if code == ErrorCode.FENCED_MEMBER_EPOCH and self.state is State.JOINING:
            self.state = State.CLEARING
        elif code in _ELSEWHERE:
            self.coordinator = None
        elif code not in _PASSES and self.state is not State.LEAVING:
            self.state = State.FAILED
            return [Failed(error)]
        self._is_certain = False
        self._retry(now)
        return [GroupFull(error, self._due)] if code == ErrorCode.GROUP_MAX_SIZE_REACHED else []

    def _rejoin(self, error: BrokerError, now: float) -> list[Event]:
        self.state, self.member_epoch, self._is_certain = State.JOINING, _JOIN, False
        self.assignment = {}
        self._due = now
        return [Lost(error)]

    def _retry(self, now: float) -> None:
        if self.state is State.LEAVING:
            self.state = State.LEFT
            return
        pause = min(self._pace.first_pause * 2.0**self._failures, self._pace.longest_pause)
        self._failures = min(self._failures + 1, 30)
        self._due = now + pause * self._jitter


def _checked(topics: Iterable[str]) -> list[str]:
    chosen = sorted(set(topics))
    if not chosen:
        raise ConfigError("A member of a share group subscribes to at least one topic; to want none, leave.")
    return chosen
