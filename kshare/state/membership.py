"""Membership: how one consumer joins a share group, stays in it and leaves it.

There is one request for all of this, ShareGroupHeartbeat, sent to the group's coordinator. Its epoch says what it
means: 0 joins, -1 leaves, anything else repeats the coordinator's last response. A response may carry an assignment,
always the complete one; without one, the assignment hasn't changed. Heartbeats carry the subscription only when it has
changed, or when it isn't certain that the coordinator has received it. The response to a heartbeat with the
subscription has the assignment, so if a response with an assignment is lost, the next one repeats it.

    state    | event                                   | next     | effect
    ---------+-----------------------------------------+----------+------------------------------------------------
    joining  | response without error                  | stable   | Joined; next heartbeat soon, for the assignment
    joining  | FENCED_MEMBER_EPOCH                     | clearing | 4.1 still has us, with an epoch unknown to us
    joining  | GROUP_MAX_SIZE_REACHED                  | joining  | GroupFull; tried again later
    joining  | GROUP_ID_NOT_FOUND                      | failed   | the name belongs to a group of another type
    clearing | heartbeat                               | clearing | leaves, to be able to join
    clearing | response, UNKNOWN_MEMBER_ID             | joining  |
    stable   | response without error                  | stable   | Assigned, if the assignment has changed
    stable   | UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, | joining  | Lost; joins again at once under the same id
             | GROUP_ID_NOT_FOUND                      |          |
    stable   | subscribe                               | stable   | sent at once; next heartbeat soon
    these 3  | NOT_COORDINATOR and such, no response   | same     | finds the coordinator after a pause
    these 3  | another transient error                 | same     | tried again after ever longer pauses
    these 3  | a permanent error                       | failed   | Failed: permissions, versions, our own mistakes
    any      | leave                                   | leaving  | left at once if no broker can know of us
    leaving  | heartbeat                               | leaving  | leaves
    leaving  | response without error, or not a member | left     |
    leaving  | NOT_COORDINATOR and such, no response,  | leaving  | tried again a few times, since the partitions
             | another transient error                 |          | stand still until the coordinator has removed us
    leaving  | a permanent error, or too many errors   | failed   | the coordinator removes silent members
    any      | response to an abandoned request        | same     | dropped

The coordinator is always looked up before the first heartbeat: on a fresh cluster the lookup creates it.

Decides when to contact the coordinator, what to send and what its response means. Never decides what to do with the
assignment, nor how long the coordinator may be silent: only a response tells whether we are still a member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from kshare.errors import BrokerError, ConfigError
from kshare.protocol.error_codes import RETRIABLE, ErrorCode
from kshare.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kshare.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kshare.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kshare.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

_JOIN, _LEAVE = 0, -1
_MOST_LEAVES = 6
"""How often leaving is tried: for about three seconds, in which another broker becomes the coordinator."""
FIRST_INTERVAL_S, MAX_INTERVAL_S = 0.1, 0.2
"""Between heartbeats while an assignment is expected: Kafka assigns a second after the join. A heartbeat should come
just after that, not just before."""
EARLY_PERIOD_S = 4.0
"""How long to send frequent heartbeats for an assignment; with more members than partitions none may come."""
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.1, 2.0
"""Pauses after errors double up to the longest."""
_NOT_A_MEMBER = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
_COORDINATOR_MOVED = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
_TRANSIENT = RETRIABLE | {
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNKNOWN_SERVER_ERROR,  # an internal error of the coordinator
}


class MembershipState(Enum):
    JOINING = "joining"
    CLEARING = "clearing"
    STABLE = "stable"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


class Joined(NamedTuple):
    """The coordinator has accepted the member."""


class AssignmentChanged(NamedTuple):
    """The complete new assignment. Metadata may not know its topic ids yet; it isn't sent a second time."""

    partitions: Mapping[bytes, frozenset[int]]


class MembershipLost(NamedTuple):
    """The group has removed the member: its assignment is void. Share sessions and their locks live on."""

    error: BrokerError


class GroupFull(NamedTuple):
    """The group is full; tried again later."""

    error: BrokerError


class Failed(NamedTuple):
    """A permanent error: retrying doesn't help."""

    error: BrokerError


class Coordinator(NamedTuple):
    node: int
    host: str
    port: int


MembershipEvent = Joined | AssignmentChanged | MembershipLost | GroupFull | Failed
MembershipRequest = FindCoordinatorRequest | ShareGroupHeartbeatRequest


class Membership:
    """One member. `member_id` is a UUID in Kafka's base64 form."""

    def __init__(
        self, group_id: str, member_id: str, topics: Iterable[str], rack_id: str | None = None
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.state = MembershipState.JOINING
        self.assignment: Mapping[bytes, frozenset[int]] = {}
        self.coordinator: Coordinator | None = None
        self.last_error: BrokerError | None = None
        """The coordinator's last error, until it responds without one."""
        self._topics = _checked_topics(topics)
        self._rack_id = rack_id
        self.member_epoch = _JOIN
        self._sent_topics: list[str] = []
        self._is_confirmed = False  # that the coordinator has received the subscription
        self._under_way: MembershipRequest | None = None
        self._next_at = float("-inf")
        self._failures = 0
        self._early_until = float("-inf")
        self._early_interval = FIRST_INTERVAL_S
        self._may_be_registered = False

    # --- what to send

    @property
    def wake_at(self) -> float | None:
        """When there is something to send; None while a response is awaited, and after the end."""
        if self._under_way is not None or self.state in (MembershipState.LEFT, MembershipState.FAILED):
            return None
        return self._next_at

    def find_coordinator(self, now: float) -> FindCoordinatorRequest | None:
        """The request to find the coordinator, for any broker."""
        if self.coordinator is not None or not self._is_due(now):
            return None
        request = FindCoordinatorRequest(coordinator_keys=[self.group_id])
        self._under_way = request
        return request

    def next_heartbeat(self, now: float) -> ShareGroupHeartbeatRequest | None:
        """The next heartbeat, for the coordinator; pass it to `on_response` with its response."""
        if self.coordinator is None or not self._is_due(now):
            return None
        is_leaving = self.state in (MembershipState.LEAVING, MembershipState.CLEARING)
        request = ShareGroupHeartbeatRequest(
            self.group_id, self.member_id, _LEAVE if is_leaving else self.member_epoch
        )
        if not is_leaving and (self._topics != self._sent_topics or not self._is_confirmed):
            request.subscribed_topic_names = self._topics
            request.rack_id = None if self._is_confirmed else self._rack_id
        self._may_be_registered = True
        self._under_way = request
        return request

    def subscribe(self, topics: Iterable[str], now: float) -> None:
        """Replaces the subscribed topics."""
        self._topics = _checked_topics(topics)
        if self.state is MembershipState.STABLE and not self._failures and self._topics != self._sent_topics:
            self._next_at = now

    def leave(self, now: float) -> None:
        """Starts to leave, without waiting for a request under way.

        `state` becomes LEFT when the coordinator has confirmed it, and FAILED if it doesn't, after a few attempts.
        """
        if self.state is MembershipState.LEFT or not self._may_be_registered:
            self.state = MembershipState.LEFT
        elif self.state is not MembershipState.LEAVING:
            self.state = MembershipState.LEAVING
            self._under_way = None
            self._next_at, self._failures = now, 0

    def _is_due(self, now: float) -> bool:
        return self.wake_at is not None and now >= self.wake_at

    # --- what got a response

    def on_coordinator(
        self, request: FindCoordinatorRequest, response: FindCoordinatorResponse, now: float
    ) -> list[MembershipEvent]:
        if request is not self._under_way:
            return []
        self._under_way = None
        coordinator = response.coordinators[0] if response.coordinators else response
        if coordinator.error_code:
            return self._on_error(coordinator.error_code, coordinator.error_message, now)
        self.coordinator = Coordinator(coordinator.node_id, coordinator.host, coordinator.port)
        self._next_at = now
        return []

    def on_response(
        self, request: ShareGroupHeartbeatRequest, response: ShareGroupHeartbeatResponse, now: float
    ) -> list[MembershipEvent]:
        if request is not self._under_way:
            return []
        self._under_way = None
        if response.error_code:
            return self._on_error(response.error_code, response.error_message, now)
        self.last_error = None
        if self.state is MembershipState.LEAVING:
            self.state = MembershipState.LEFT
            return []
        if self.state is MembershipState.CLEARING:
            self.state, self._next_at = MembershipState.JOINING, now
            return []
        return self._on_success(request.subscribed_topic_names, response, now)

    def on_no_response(self, now: float) -> None:
        """The connection ended, with or without a request under way, or a request timed out.

        The request may have been carried out, and the coordinator may be another broker by now.
        """
        self.coordinator = None
        if self._under_way is not None:
            self._under_way = None
            self._is_confirmed = False
            self._retry(now)

    def _on_success(
        self, names: list[str] | None, response: ShareGroupHeartbeatResponse, now: float
    ) -> list[MembershipEvent]:
        events: list[MembershipEvent] = []
        is_join = self.state is MembershipState.JOINING
        if is_join:
            events.append(Joined())
            self.state = MembershipState.STABLE
        self.member_epoch, self._failures = response.member_epoch, 0
        rows = response.assignment.topic_partitions if response.assignment else []
        if is_join or names not in (None, self._sent_topics):
            self._early_interval = FIRST_INTERVAL_S
            self._early_until = now + EARLY_PERIOD_S
        if rows and (is_join or names is None):  # else it may just repeat the previous assignment
            self._early_until = now
        if names is not None:
            self._sent_topics, self._is_confirmed = names, True
        assignment = {topic.topic_id: frozenset(topic.partitions) for topic in rows}
        if response.assignment is not None and assignment != self.assignment:
            self.assignment = assignment
            events.append(AssignmentChanged(assignment))
        self._schedule(response.heartbeat_interval_ms / 1000, now)
        return events

    def _schedule(self, interval: float, now: float) -> None:
        """After a success: at once if the topics changed, soon while an assignment is expected, else at `interval`."""
        pause = max(interval, MAX_INTERVAL_S)
        if self._topics != self._sent_topics:
            pause = 0.0
        elif now < self._early_until:
            pause = min(pause, self._early_interval)
            self._early_interval = min(self._early_interval * 1.5, MAX_INTERVAL_S)
        self._next_at = now + pause

    # --- what was refused

    def _on_error(self, code: int, message: str | None, now: float) -> list[MembershipEvent]:
        error = self.last_error = BrokerError(code, f"share group {self.group_id!r}", message)
        if code in _NOT_A_MEMBER and self.state is MembershipState.STABLE:
            return self._rejoin(error, now)
        if code in _NOT_A_MEMBER and self.state is MembershipState.LEAVING:
            self.state = MembershipState.LEFT
            return []
        if code in _NOT_A_MEMBER and self.state is MembershipState.CLEARING:
            self.state, self._next_at = MembershipState.JOINING, now
            return []
        if code == ErrorCode.FENCED_MEMBER_EPOCH and self.state is MembershipState.JOINING:
            self.state = MembershipState.CLEARING
        elif code in _COORDINATOR_MOVED:
            self.coordinator = None
        elif code not in _TRANSIENT:
            before, self.state = self.state, MembershipState.FAILED
            return [] if before is MembershipState.LEAVING else [Failed(error)]
        self._is_confirmed = False
        self._retry(now)
        return [GroupFull(error)] if code == ErrorCode.GROUP_MAX_SIZE_REACHED else []

    def _rejoin(self, error: BrokerError, now: float) -> list[MembershipEvent]:
        self.state, self.member_epoch, self._is_confirmed = MembershipState.JOINING, _JOIN, False
        self.assignment = {}
        self._next_at = now
        return [MembershipLost(error)]

    def _retry(self, now: float) -> None:
        if self.state is MembershipState.LEAVING and self._failures + 1 >= _MOST_LEAVES:
            self.state = MembershipState.FAILED
            return
        pause = min(_MIN_PAUSE_S * 2.0**self._failures, _MAX_PAUSE_S)
        self._failures = min(self._failures + 1, 30)
        self._next_at = now + pause


def _checked_topics(topics: Iterable[str]) -> list[str]:
    chosen = sorted(set(topics))
    if not chosen:
        raise ConfigError(
            "a member of a share group subscribes to at least one topic; to stop, close the consumer"
        )
    return chosen
