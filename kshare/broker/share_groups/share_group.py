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

from collections.abc import Iterable
from dataclasses import dataclass, field

from kshare.broker.assigned_groups import AssignedGroup, HeartbeatResult, Target, TopicMetadata
from kshare.broker.cluster import TopicIdPartition
from kshare.broker.request_error import RequestError
from kshare.broker.share_groups.assignor import assign
from kshare.protocol.error_codes import ErrorCode

JOIN, LEAVE = 0, -1


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


class ShareGroup(AssignedGroup[ShareMember]):
    """`ready` are the partitions whose share state is initialized, by topic id."""

    def __init__(self, group_id: str, *, assigns_at_once_after_empty: bool = True) -> None:
        super().__init__(group_id, 1, assigns_at_once_after_empty=assigns_at_once_after_empty)
        self.ready: dict[bytes, set[int]] = {}

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def topics(self) -> set[str]:
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

    def heartbeat(
        self, heartbeat_request: Heartbeat, existing: TopicMetadata, now: int, interval: int
    ) -> HeartbeatResult:
        """`existing` are all existing topics. The caller has checked that the member may join."""
        member = self.members.get(heartbeat_request.member_id)
        is_changed = member is None
        if member is None:
            member = self.members[heartbeat_request.member_id] = ShareMember(
                heartbeat_request.member_id, heartbeat_request.client_id, heartbeat_request.host
            )
        is_changed |= self._update(member, heartbeat_request)
        metadata = self._subscribed(existing)
        is_changed |= metadata != self._metadata
        self._metadata = metadata
        if is_changed or (self.epoch == self.assignment_epoch and self._is_readier_than_assigned()):
            self.epoch += 1
        self._assign_if_due(now, interval)
        return self._reconcile(member, heartbeat_request)

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
        return HeartbeatResult(member.epoch, frozenset(member.assigned) if is_sent else None)

    def _new_target(self) -> Target:
        wanted = {member.id: self._open_to(member.topics) for member in self.members.values()}
        return assign(wanted, self._target)

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
