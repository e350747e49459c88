"""All share groups: creates and finds them, removes members that time out, initializes share state.

A group exists from its first member, or from the first offset that is set for it, until it is deleted. `share_group`
handles what happens in a group; the share coordinator has the state of its partitions.
"""

from __future__ import annotations

from kshare.broker.assigned_groups import AssignedGroups, HeartbeatResult
from kshare.broker.clock import Clock
from kshare.broker.cluster import Cluster, Topic
from kshare.broker.configs import Configs
from kshare.broker.groups import Groups
from kshare.broker.request_error import RequestError
from kshare.broker.share_groups.share_group import LEAVE, Heartbeat, ShareGroup, ShareMember
from kshare.broker.share_state.coordinator import ShareCoordinator
from kshare.broker.share_state.share_state import UNKNOWN_START
from kshare.protocol.error_codes import ErrorCode


class ShareGroups(AssignedGroups[ShareGroup, ShareMember]):
    def __init__(
        self,
        clock: Clock,
        configs: Configs,
        cluster: Cluster,
        groups: Groups,
        states: ShareCoordinator,
        *,
        assigns_at_once_after_empty: bool,
    ) -> None:
        super().__init__("share", clock, configs, cluster, groups)
        self._states = states
        self._assigns_at_once_after_empty = assigns_at_once_after_empty
        cluster.topic_deleted.append(self._forget_topic)

    def delete(self, group_id: str) -> None:
        group = self._by_id[group_id]
        if group.members:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP)
        for topic_id, indexes in group.ready.items():
            for index in indexes:
                self._states.delete((group_id, topic_id, index))
        del self._by_id[group_id]

    def give_way(self, group_id: str) -> bool:
        return False

    # --- heartbeats

    def heartbeat(self, group_id: str, heartbeat_request: Heartbeat) -> HeartbeatResult:
        """Raises RequestError."""
        if heartbeat_request.epoch == LEAVE:
            group = self.find(group_id)
            group.remove(group.member(heartbeat_request.member_id))
            return HeartbeatResult(LEAVE, None)
        if heartbeat_request.epoch != 0:
            group = self._find_existing(group_id)
            group.check(heartbeat_request)
        else:
            group = self.find_or_make(group_id)
            self._check_room(group, heartbeat_request.member_id)
        now = self._clock.now()
        existing, interval = self._existing_topics(), self._interval(group_id)
        response = group.heartbeat(heartbeat_request, existing, now, interval)
        self._keep_alive(group, group.members[heartbeat_request.member_id], now)
        if self._initialize(group) and not interval:
            # Without an interval, a member gets newly ready partitions in this response already.
            response = group.heartbeat(heartbeat_request, existing, now, interval)
        return response

    def find_or_make(self, group_id: str) -> ShareGroup:
        """GROUP_ID_NOT_FOUND if it is a group of another kind."""
        self.check_kind(group_id)
        return self._by_id.setdefault(
            group_id, ShareGroup(group_id, assigns_at_once_after_empty=self._assigns_at_once_after_empty)
        )

    def restore(self) -> None:
        """Create groups from their stored states after a restart. Members have to join again."""
        for (group_id, topic_id, index), state in list(self._states.known()):
            group = self.find_or_make(group_id)
            group.epoch = max(group.epoch, state.state_epoch)
            if self._cluster.find(topic_id) is not None:
                group.set_ready((topic_id, index))

    def initialize(self, group: ShareGroup, topic_id: bytes, index: int, start: int) -> None:
        """Start a share-partition at this offset. The group's epoch distinguishes the new state from the old one."""
        self._states.initialize((group.id, topic_id, index), group.epoch, start)
        group.set_ready((topic_id, index))

    def forget_partitions(self, group: ShareGroup, topic: Topic) -> None:
        """Delete the share state of a topic."""
        for index in group.ready.pop(topic.id, set()):
            self._states.delete((group.id, topic.id, index))

    def _initialize(self, group: ShareGroup) -> bool:
        """Whether partitions have become ready."""
        missing = group.missing()
        for topic_id, index in missing:
            try:
                self.initialize(group, topic_id, index, UNKNOWN_START)
            except RequestError:
                return False  # No coordinator, or the topic was just deleted: the next heartbeat tries again.
        return bool(missing)

    def _forget_topic(self, topic: Topic) -> None:
        for group in self._by_id.values():
            for index in group.ready.pop(topic.id, set()):
                self._states.forget((group.id, topic.id, index))
