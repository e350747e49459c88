"""One share group: its members, its epoch, and what each member is assigned.

    event                               | does
    ------------------------------------+---------------------------------------------------------------
    a member joins, leaves, times out   | the group epoch increases
    a subscription or its topics change | the group epoch increases
    partitions have become ready        | the group epoch increases, unless a new assignment is due anyway
    a heartbeat, group epoch ahead      | a new target assignment, but not sooner than the interval allows
    a heartbeat, assignment ahead       | the member gets its target assignment and the epoch of it

A member with an epoch that it never had is fenced. Partitions are assigned when `share_groups` has initialized their
share state. Pure: time is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kshare.broker.request_error import RequestError
from kshare.broker.share_groups.assignor import TopicIdPartition, assign
from kshare.protocol.error_codes import ErrorCode

JOIN, LEAVE = 0, -1
Metadata = dict[str, tuple[bytes, int]]
"""Topic name → topic id and number of partitions."""


@dataclass(slots=True)
class ShareMember:
    id: str
    client_id: str
    host: str
    rack: str | None = None
    topics: list[str] = field(default_factory=list)
    epoch: int = 0
    previous_epoch: int = 0
    assigned: set[TopicIdPartition] = field(default_factory=set)
    session_ends_at: int = 0
    """When the session times out without another heartbeat."""


@dataclass(slots=True, frozen=True)
class Heartbeat:
    """The parts of a heartbeat request that the group needs."""

    member_id: str
    epoch: int
    topics: list[str] | None
    rack: str | None
    client_id: str
    host: str


@dataclass(slots=True, frozen=True)
class HeartbeatResult:
    epoch: int
    assigned: set[TopicIdPartition] | None
    """None if nothing has changed."""


class ShareGroup:
    """`ready` are the partitions whose share state is initialized, by topic id.

    `assigns_at_once_after_empty`: whether an assignment is due as soon as a member joins the empty group, even if the
    interval since the last assignment hasn't passed.
    """

    def __init__(self, group_id: str, *, assigns_at_once_after_empty: bool = True) -> None:
        self.id = group_id
        self._assigns_at_once_after_empty = assigns_at_once_after_empty
        self.epoch = 1
        self.assignment_epoch = 1
        self.members: dict[str, ShareMember] = {}
        self.ready: dict[bytes, set[int]] = {}
        self._target: dict[str, set[TopicIdPartition]] = {}
        self._metadata: Metadata = {}
        self._assigned_at: int | None = None

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def topics(self) -> set[str]:
        """The topics that at least one member has subscribed to."""
        return {topic for member in self.members.values() for topic in member.topics}

    # --- members

    def check(self, heartbeat_request: Heartbeat) -> None:
        """Raises RequestError if the member is unknown, or its epoch is wrong."""
        member = self.member(heartbeat_request.member_id)
        if heartbeat_request.epoch > member.epoch:
            raise _fenced(f"a greater member epoch ({heartbeat_request.epoch})", member, "")
        if 0 < heartbeat_request.epoch < member.epoch and heartbeat_request.epoch != member.previous_epoch:
            before = f", and it does not match the previous member epoch ({member.previous_epoch})"
            raise _fenced(f"a smaller member epoch ({heartbeat_request.epoch})", member, before)

    def member(self, member_id: str) -> ShareMember:
        """Raises RequestError with Kafka's message if the member is unknown."""
        member = self.members.get(member_id)
        if member is None:
            reason = f"Member {member_id} is not a member of group {self.id}."
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, reason)
        return member

    def heartbeat(
        self, heartbeat_request: Heartbeat, existing: Mapping[str, tuple[bytes, int]], now: int, interval: int
    ) -> HeartbeatResult:
        """`existing` are all existing topics. The caller has checked that the member may join."""
        member = self.members.get(heartbeat_request.member_id)
        is_changed = member is None
        if member is None:
            member = self.members[heartbeat_request.member_id] = ShareMember(
                heartbeat_request.member_id, heartbeat_request.client_id, heartbeat_request.host
            )
        is_changed |= self._update(member, heartbeat_request)
        metadata = {topic: existing[topic] for topic in sorted(self.topics) if topic in existing}
        is_changed |= metadata != self._metadata
        self._metadata = metadata
        if is_changed or (self.epoch == self.assignment_epoch and self._is_readier_than_assigned()):
            self.epoch += 1
        if self.epoch > self.assignment_epoch and (
            self._assigned_at is None or now - self._assigned_at >= interval
        ):
            self._assign(now)
        return self._reconcile(member, heartbeat_request)

    def remove(self, member_id: str) -> None:
        """Remove a member that has left or timed out."""
        del self.members[member_id]
        self._target.pop(member_id, None)
        self.epoch += 1
        if not self.members and self._assigns_at_once_after_empty:
            self.assignment_epoch = self.epoch
            self._assigned_at = None

    def _update(self, member: ShareMember, heartbeat_request: Heartbeat) -> bool:
        member.client_id, member.host = heartbeat_request.client_id, heartbeat_request.host
        is_changed = False
        if heartbeat_request.rack is not None and heartbeat_request.rack != member.rack:
            member.rack = heartbeat_request.rack
            is_changed = True
        if heartbeat_request.topics is not None:
            is_changed |= set(heartbeat_request.topics) != set(member.topics)
            member.topics = sorted(set(heartbeat_request.topics))
        return is_changed

    # --- the assignment

    def _reconcile(self, member: ShareMember, heartbeat_request: Heartbeat) -> HeartbeatResult:
        """Assign the target. Topics that are unsubscribed or deleted are revoked at once."""
        before = member.assigned
        if member.epoch != self.assignment_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.assignment_epoch
            member.assigned = self._target.get(member.id, set())
        topic_ids = {self._metadata[topic][0] for topic in member.topics if topic in self._metadata}
        member.assigned = {each for each in member.assigned if each[0] in topic_ids}
        is_sent = (
            heartbeat_request.epoch == JOIN
            or heartbeat_request.topics is not None
            or member.assigned != before
        )
        return HeartbeatResult(member.epoch, set(member.assigned) if is_sent else None)

    def _assign(self, now: int) -> None:
        wanted = {member.id: self._open_to(member.topics) for member in self.members.values()}
        self._target = assign(wanted, self._target)
        self.assignment_epoch = self.epoch
        self._assigned_at = now

    def _open_to(self, topics: Iterable[str]) -> set[TopicIdPartition]:
        """The partitions of these topics that may be assigned."""
        return {
            (topic_id, index)
            for topic_id, count in (self._metadata[topic] for topic in topics if topic in self._metadata)
            for index in self.ready.get(topic_id, ())
            if index < count
        }

    def _is_readier_than_assigned(self) -> bool:
        assigned = set[TopicIdPartition]().union(*self._target.values())
        return not self._open_to(self.topics) <= assigned

    # --- partitions

    def missing(self) -> list[TopicIdPartition]:
        """Partitions of subscribed topics that have no share state yet."""
        return [
            (topic_id, index)
            for topic_id, count in self._metadata.values()
            for index in range(count)
            if index not in self.ready.get(topic_id, ())
        ]

    def set_ready(self, partition: TopicIdPartition) -> None:
        topic_id, index = partition
        self.ready.setdefault(topic_id, set()).add(index)


def _fenced(what: str, member: ShareMember, addition: str) -> RequestError:
    """An error with Kafka's message."""
    return RequestError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has {what} than the one known by the group coordinator ({member.epoch}){addition}. "
        "The member must abandon all its partitions and rejoin.",
    )
