"""All consumer groups of KIP-848: creates and finds them, fences members whose time is up, checks who may commit.

A group exists from its first member until it is deleted, or becomes a classic group while it is empty. Its committed
offsets are with those of classic groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kshare.broker.assigned_groups import AssignedGroups, HeartbeatResult
from kshare.broker.clock import Clock
from kshare.broker.cluster import Cluster, TopicIdPartition
from kshare.broker.configs import Configs
from kshare.broker.consumer_groups.consumer_group import (
    JOIN_EPOCH,
    ConsumerGroup,
    ConsumerHeartbeat,
    GroupBehavior,
)
from kshare.broker.consumer_groups.consumer_member import ConsumerMember
from kshare.broker.groups import Groups
from kshare.broker.notifiers import Notifier
from kshare.broker.request_error import RequestError
from kshare.broker.settings import listed
from kshare.protocol.error_codes import ErrorCode

_FOR_MEMBERS_SINCE = 9
"""The first version of OffsetCommit that members may use."""


class ConsumerGroups(AssignedGroups[ConsumerGroup, ConsumerMember]):
    """`changed` fires when what survives a restart has changed."""

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
        super().__init__("consumer", clock, configs, cluster, groups)
        self.behavior = behavior
        self.changed = Notifier()
        self._forget_offsets = forget_offsets
        self._has_interval = has_interval

    # --- GroupKind

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

    def restore(self, group_id: str, epoch: int) -> None:
        """Restore a group without members: they learn that they are unknown, and join again."""
        group = self._by_id[group_id] = ConsumerGroup(group_id, self.behavior)
        group.epoch = group.assignment_epoch = epoch

    # --- heartbeats

    def heartbeat(self, group_id: str, request: ConsumerHeartbeat) -> HeartbeatResult:
        """Raises RequestError."""
        self._check_assignor(request.assignor)
        if request.epoch == JOIN_EPOCH:
            group = self._joined(group_id)
            self._check_room(group, request.member_id)
        else:
            group = self._find_existing(group_id)
        now = self._clock.now()
        before = group.epoch
        interval = self._interval(group_id) if self._has_interval else 0
        result = group.heartbeat(request, self._existing_topics(), now, interval)
        self._by_id[group_id] = group
        if group.epoch != before:
            self.changed.fire()
        member = group.members[request.member_id]
        self._keep_alive(group, member, now)
        if member.revocation_ends_at is not None:
            self._watch_revocation(group, member, member.revocation_ends_at)
        return result

    def leave(self, group_id: str, member_id: str, instance: str | None, *, for_now: bool) -> None:
        """Raises RequestError."""
        group = self.find(group_id)
        group.leave(member_id, instance, for_now=for_now)
        self.changed.fire()

    def _joined(self, group_id: str) -> ConsumerGroup:
        """The group, or a new one that isn't there yet."""
        if group_id in self._by_id:
            return self._by_id[group_id]
        other = self._groups.kind_of(group_id)
        if other is not None and not other.give_way(group_id):
            return self.find(group_id)  # raises
        return ConsumerGroup(group_id, self.behavior)

    def _check_assignor(self, assignor: str | None) -> None:
        if assignor is not None and assignor not in self.behavior.assignors:
            reason = f"ServerAssignor {assignor} is not supported. Supported assignors: "
            raise RequestError(
                ErrorCode.UNSUPPORTED_ASSIGNOR, f"{reason}{', '.join(self.behavior.assignors)}."
            )

    # --- timeouts

    def _watch_revocation(self, group: ConsumerGroup, member: ConsumerMember, until: int) -> None:
        def look() -> None:
            if group.members.get(member.id) is member and member.revocation_ends_at == until:
                self._remove(group, member)

        self._clock.at(until, look)

    def _remove(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        super()._remove(group, member)
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
