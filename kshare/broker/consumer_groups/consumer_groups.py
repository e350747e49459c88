"""All consumer groups of KIP-848: creates and finds them, fences members whose time is up, checks who may commit.

A group exists from its first member until it is deleted, or becomes a classic group while it is empty. Its committed
offsets are with those of classic groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from kshare.broker.clock import Clock
from kshare.broker.cluster import Cluster
from kshare.broker.configs import Configs
from kshare.broker.consumer_groups.assignors import TopicIdPartition
from kshare.broker.consumer_groups.consumer_group import (
    JOIN_EPOCH,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    GroupBehavior,
)
from kshare.broker.consumer_groups.consumer_member import ConsumerMember
from kshare.broker.groups import Groups, ListedGroup
from kshare.broker.notifiers import Notifier
from kshare.broker.request_error import RequestError
from kshare.broker.start_checks import listed
from kshare.protocol.error_codes import ErrorCode

_FOR_MEMBERS_SINCE = 9
"""The first version of OffsetCommit that members may use."""


class ConsumerGroups:
    """The consumer groups, as a `groups.GroupKind`. `changed` fires when what survives a restart has changed."""

    def __init__(
        self,
        clock: Clock,
        configs: Configs,
        cluster: Cluster,
        groups: Groups,
        forget_offsets: Callable[[str], None],
        behavior: GroupBehavior,
        *,
        has_interval: bool,
    ) -> None:
        self.behavior = behavior
        self.changed = Notifier()
        self._clock = clock
        self._configs = configs
        self._cluster = cluster
        self._groups = groups
        self._forget_offsets = forget_offsets
        self._has_interval = has_interval
        self._by_id: dict[str, ConsumerGroup] = {}
        groups.kinds.append(self)

    # --- GroupKind

    def has(self, group_id: str) -> bool:
        return group_id in self._by_id

    def listed(self) -> Iterator[ListedGroup]:
        for group in self._by_id.values():
            yield ListedGroup(group.id, group.state, "consumer", "consumer")

    def delete(self, group_id: str) -> None:
        if not self.give_way(group_id):
            raise RequestError(ErrorCode.NON_EMPTY_GROUP)
        self._forget_offsets(group_id)

    def give_way(self, group_id: str) -> bool:
        if self._by_id[group_id].members:
            return False
        del self._by_id[group_id]
        self.changed.fire()
        return True

    def all(self) -> Iterable[ConsumerGroup]:
        return self._by_id.values()

    def restore(self, group_id: str, epoch: int) -> None:
        """Restore a group without members: they learn that they are unknown, and join again."""
        group = self._by_id[group_id] = ConsumerGroup(group_id, self.behavior)
        group.epoch = group.assignment_epoch = epoch

    def find(self, group_id: str) -> ConsumerGroup:
        """GROUP_ID_NOT_FOUND if there is none. The messages are Kafka's, here and below, because clients show them."""
        group = self._by_id.get(group_id)
        if group is None:
            is_other = self._groups.kind_of(group_id) is not None
            reason = f"Group {group_id} {'is not a consumer group' if is_other else 'not found'}."
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, reason)
        return group

    # --- heartbeats

    def heartbeat(self, group_id: str, request: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        """Raises RequestError."""
        self._check_assignor(request.assignor)
        if request.epoch == JOIN_EPOCH:
            group = self._joined(group_id)
            self._check_room(group, request.member_id)
        else:
            group = self._find_existing(group_id)
        now = self._clock.now()
        existing = {topic.name: (topic.id, len(topic.partitions)) for topic in self._cluster.topics.values()}
        before = group.epoch
        result = group.heartbeat(request, existing, now, self._interval(group_id))
        self._by_id[group_id] = group
        if group.epoch != before:
            self.changed.fire()
        self._watch_after(group, group.members[request.member_id], now)
        return result

    def leave(self, group_id: str, member_id: str, instance: str | None, *, for_now: bool) -> None:
        """Raises RequestError."""
        group = self.find(group_id)
        group.leave(member_id, instance, for_now=for_now)
        self.changed.fire()

    def _interval(self, group_id: str) -> int:
        if not self._has_interval:
            return 0
        return self._configs.group_number(group_id, "consumer.assignment.interval.ms")

    def _joined(self, group_id: str) -> ConsumerGroup:
        """The group, or a new one that isn't there yet."""
        if group_id in self._by_id:
            return self._by_id[group_id]
        other = self._groups.kind_of(group_id)
        if other is not None and not other.give_way(group_id):
            return self.find(group_id)  # raises
        return ConsumerGroup(group_id, self.behavior)

    def _find_existing(self, group_id: str) -> ConsumerGroup:
        """The group of a member that has joined. If there is none, Kafka's message is a different one."""
        if self._groups.kind_of(group_id) is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return self.find(group_id)

    def _check_assignor(self, assignor: str | None) -> None:
        if assignor is not None and assignor not in self.behavior.assignors:
            reason = f"ServerAssignor {assignor} is not supported. Supported assignors: "
            raise RequestError(
                ErrorCode.UNSUPPORTED_ASSIGNOR, f"{reason}{', '.join(self.behavior.assignors)}."
            )

    def _check_room(self, group: ConsumerGroup, member_id: str) -> None:
        max_size = self._configs.broker_number("group.consumer.max.size")
        if len(group.members) >= max_size and member_id not in group.members:
            raise RequestError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {max_size} members.",
            )

    # --- timeouts

    def _watch_after(self, group: ConsumerGroup, member: ConsumerMember, now: int) -> None:
        """Watch the session and the revocation of a member that has sent a heartbeat."""
        is_watched = member.session_ends_at > 0
        member.session_ends_at = now + self._configs.group_number(group.id, "consumer.session.timeout.ms")
        if not is_watched:
            self._watch_session(group, member)
        if member.revocation_ends_at is not None:
            self._watch_revocation(group, member, member.revocation_ends_at)

    def _watch_session(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        def look() -> None:
            if group.members.get(member.id) is not member:
                return
            if self._clock.now() >= member.session_ends_at:
                self._fence(group, member)
            else:
                self._watch_session(group, member)

        self._clock.at(member.session_ends_at, look)

    def _watch_revocation(self, group: ConsumerGroup, member: ConsumerMember, until: int) -> None:
        def look() -> None:
            if group.members.get(member.id) is member and member.revocation_ends_at == until:
                self._fence(group, member)

        self._clock.at(until, look)

    def _fence(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        group.remove(member)
        self.changed.fire()

    # --- offsets

    def check_commit(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        partitions: Collection[TopicIdPartition],
        version: int | None,
    ) -> None:
        """Raises RequestError if the member, or with epoch -1 a client outside of an empty group, may not commit.

        `version` is that of OffsetCommit; None for a commit in a transaction.
        """
        group = self._by_id[group_id]
        if epoch < 0 and not group.members:
            return
        group.member(member_id)
        if version is not None and version < _FOR_MEMBERS_SINCE:
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        group.check_commit(member_id, epoch, partitions)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raises RequestError if the member isn't in this epoch. Clients that aren't members may fetch offsets."""
        group = self._by_id.get(group_id)
        if group is not None and (member_id is not None or epoch >= 0):
            group.check_epoch(member_id or "", epoch)


def supported_assignors(names: str) -> tuple[str, ...]:
    """The assignors of the setting `group.consumer.assignors`, which may have the class names of Kafka's own."""
    return tuple(name.rpartition(".")[2].removesuffix("Assignor").lower() for name in listed(names))
