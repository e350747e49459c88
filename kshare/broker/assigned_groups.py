"""What share groups and the consumer groups of KIP-848 have in common: the broker assigns their partitions.

A change of members or subscriptions increases the group epoch. A heartbeat after that makes a new target assignment,
but not sooner than the interval allows; the epoch of the target is that of the group when it was made. `share_group`
and `consumer_group` decide what a change is, and how members get to their targets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kshare.broker.clock import Clock
from kshare.broker.cluster import Cluster, TopicIdPartition
from kshare.broker.configs import Configs
from kshare.broker.groups import GroupKind, Groups, ListedGroup
from kshare.broker.request_error import RequestError
from kshare.protocol.error_codes import ErrorCode

TopicMetadata = Mapping[str, tuple[bytes, int]]
"""Topic name → topic id and number of partitions."""
Target = dict[str, set[TopicIdPartition]]
"""Member id → the partitions that it should have."""


@dataclass(slots=True, frozen=True)
class HeartbeatResult:
    epoch: int
    assigned: frozenset[TopicIdPartition] | None
    """None if nothing has changed."""


class WatchedMember(Protocol):
    id: str
    session_ends_at: int
    """When the session times out without another heartbeat. 0 before the first."""


MemberT = TypeVar("MemberT", bound=WatchedMember)


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return topics


class AssignedGroup(ABC, Generic[MemberT]):
    """One group. Pure: time is passed in.

    `assigns_at_once_after_empty`: whether an assignment is due as soon as a member joins the empty group, even if the
    interval since the last assignment hasn't passed.
    """

    def __init__(self, group_id: str, first_epoch: int, *, assigns_at_once_after_empty: bool) -> None:
        self.id = group_id
        self.epoch = self.assignment_epoch = first_epoch
        self.members: dict[str, MemberT] = {}
        self._assigns_at_once_after_empty = assigns_at_once_after_empty
        self._target: Target = {}
        self._metadata: TopicMetadata = {}
        self._assigned_at: int | None = None

    @property
    @abstractmethod
    def state(self) -> str: ...

    @property
    @abstractmethod
    def topics(self) -> set[str]:
        """The topics that at least one member has subscribed to."""

    @abstractmethod
    def _new_target(self) -> Target: ...

    def member(self, member_id: str) -> MemberT:
        """Raises RequestError if the member is unknown. The messages are Kafka's, here and in subclasses."""
        member = self.members.get(member_id)
        if member is None:
            reason = f"Member {member_id} is not a member of group {self.id}."
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, reason)
        return member

    def remove(self, member: MemberT) -> None:
        """Remove a member that has left, timed out or is fenced."""
        del self.members[member.id]
        self._target.pop(member.id, None)
        self.epoch += 1
        if not self.members and self._assigns_at_once_after_empty:
            self.assignment_epoch = self.epoch
            self._assigned_at = None

    def _subscribed(self, existing: TopicMetadata) -> TopicMetadata:
        return {name: existing[name] for name in sorted(self.topics) if name in existing}

    def _assign_if_due(self, now: int, interval: int) -> None:
        is_due = self._assigned_at is None or now - self._assigned_at >= interval
        if self.epoch > self.assignment_epoch and is_due:
            self._target = self._new_target()
            self.assignment_epoch = self.epoch
            self._assigned_at = now


GroupT = TypeVar("GroupT", bound=AssignedGroup[Any])


class AssignedGroups(GroupKind, ABC, Generic[GroupT, MemberT]):
    """All groups of a kind, "share" or "consumer": finds them, and removes members whose session times out.

    The messages are Kafka's, because clients show them.
    """

    def __init__(self, kind: str, clock: Clock, configs: Configs, cluster: Cluster, groups: Groups) -> None:
        self._kind = kind
        self._clock = clock
        self._configs = configs
        self._cluster = cluster
        self._groups = groups
        self._by_id: dict[str, GroupT] = {}
        groups.kinds.append(self)

    def has(self, group_id: str) -> bool:
        return group_id in self._by_id

    def listed(self) -> Iterator[ListedGroup]:
        for group in self._by_id.values():
            yield ListedGroup(group.id, group.state, self._kind, self._kind)

    def all(self) -> Iterable[GroupT]:
        return self._by_id.values()

    def find(self, group_id: str) -> GroupT:
        """GROUP_ID_NOT_FOUND if there is none."""
        group = self._by_id.get(group_id)
        if group is None:
            self.check_kind(group_id)
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def check_kind(self, group_id: str) -> None:
        """Raises RequestError if it is a group of another kind."""
        if self._groups.kind_of(group_id) not in (None, self):
            reason = f"Group {group_id} is not a {self._kind} group."
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, reason)

    def _find_existing(self, group_id: str) -> GroupT:
        """The group of a member that has joined. If there is none, Kafka's message is a different one."""
        if self._groups.kind_of(group_id) is None:
            reason = f"{self._kind.title()} group {group_id} not found."
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, reason)
        return self.find(group_id)

    def _check_room(self, group: GroupT, member_id: str) -> None:
        max_size = self._configs.broker_number(f"group.{self._kind}.max.size")
        if member_id not in group.members and len(group.members) >= max_size:
            reason = f"The {self._kind} group has reached its maximum capacity of {max_size} members."
            raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, reason)

    def _existing_topics(self) -> TopicMetadata:
        return {topic.name: (topic.id, len(topic.partitions)) for topic in self._cluster.topics.values()}

    def _interval(self, group_id: str) -> int:
        return self._configs.group_number(group_id, f"{self._kind}.assignment.interval.ms")

    def _keep_alive(self, group: GroupT, member: MemberT, now: int) -> None:
        """Restart the session timeout of a member that has sent a heartbeat."""
        is_watched = member.session_ends_at > 0
        session_ms = self._configs.group_number(group.id, f"{self._kind}.session.timeout.ms")
        member.session_ends_at = now + session_ms
        if not is_watched:
            self._watch_session(group, member)

    def _watch_session(self, group: GroupT, member: MemberT) -> None:
        def look() -> None:
            if group.members.get(member.id) is not member:
                return
            if self._clock.now() >= member.session_ends_at:
                self._remove(group, member)
            else:
                self._watch_session(group, member)

        self._clock.at(member.session_ends_at, look)

    def _remove(self, group: GroupT, member: MemberT) -> None:
        group.remove(member)
