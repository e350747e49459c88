"""All share-partitions and share sessions of a broker, by node.

Loads a share-partition at its first fetch from the leader. Drops it when the leader moves, the topic is deleted, its
state is initialized again, or the last member of the group has disconnected from the node. A group that has settled
nothing by then has no stored start offset, so `share.auto.offset.reset` decides again where it starts. Closes sessions,
and releases their records.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshare.broker.cluster import Node, Partition, TopicIdPartition
from kshare.broker.connection import ClientConnection
from kshare.broker.request_error import RequestError
from kshare.broker.shares.sessions import OPEN, SessionKey, ShareSession, ShareSessions
from kshare.broker.shares.share_partition_leader import ShareContext, SharePartitionLeader
from kshare.protocol.error_codes import ErrorCode

_MOST_SESSIONS = "group.share.max.share.sessions"


class Shares:
    def __init__(self, parts: ShareContext) -> None:
        self._parts = parts
        self._sessions: dict[int, ShareSessions] = {}
        self._leaders: dict[tuple[str, Partition], SharePartitionLeader] = {}

    # --- sessions

    def sessions(self, node: Node) -> ShareSessions:
        return self._sessions.setdefault(node.id, ShareSessions())

    def session_for(self, owner: SessionKey, epoch: int, connection: ClientConnection) -> ShareSession:
        """The session of a request, new or existing; raises RequestError."""
        sessions = self.sessions(connection.node)
        if epoch != OPEN:
            return sessions.next_epoch(owner, epoch)
        session = sessions.open(owner, connection.number, self._parts.configs.broker_number(_MOST_SESSIONS))
        connection.on_closed("share sessions", lambda: self._end_all(connection))
        connection.on_closed(owner, lambda: self._drop_unused(owner[0], connection.node))
        return session

    def end(self, session: ShareSession, node: Node) -> None:
        """Close the session and release its records."""
        if self.sessions(node).close(session):
            self._release(session.owner, session.partitions)

    def _end_all(self, connection: ClientConnection) -> None:
        for session in self.sessions(connection.node).of_connection(connection.number):
            self._parts.counters.evictions[connection.node.id] += 1
            self.end(session, connection.node)

    def _release(self, owner: SessionKey, partitions: Iterable[TopicIdPartition]) -> None:
        group, member = owner
        for topic_id, index in partitions:
            topic = self._parts.cluster.find(topic_id)
            if topic is None or index >= len(topic.partitions):
                continue
            leader = self._leaders.get((group, topic.partitions[index]))
            if leader is not None:
                leader.release(member)

    def _drop_unused(self, group: str, node: Node) -> None:
        """A member has disconnected: even if it had closed its session, no other may be left."""
        if self.sessions(node).has_group(group):
            return
        for leader in [*self._leaders.values()]:
            if leader.group == group and leader.partition.leader == node.id:
                leader.give_up()

    # --- share-partitions

    def leader(
        self, group: str, topic_partition: TopicIdPartition, node: Node
    ) -> tuple[SharePartitionLeader, bool]:
        """The share-partition, and whether it had to be loaded; raises RequestError."""
        partition = self._parts.cluster.partition_led_by(*topic_partition, node)
        found = self._leaders.get((group, partition))
        is_cold = found is None
        if found is None:
            with self._parts.counters.partition_loads.measured():
                found = SharePartitionLeader(group, partition, self._parts, self._drop)
            self._leaders[group, partition] = found
            partition.moved.listen(found.give_up)
        return found, is_cold

    def find(self, group: str, topic_partition: TopicIdPartition, node: Node) -> SharePartitionLeader:
        """The share-partition that was loaded for a fetch; raises RequestError if it isn't loaded."""
        partition = self._parts.cluster.partition_led_by(*topic_partition, node)
        found = self._leaders.get((group, partition))
        if found is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def loaded(self) -> Iterable[SharePartitionLeader]:
        return self._leaders.values()

    def reload(self, group: str, partition: Partition) -> None:
        """Drop the share-partition, because another request has initialized its state."""
        found = self._leaders.get((group, partition))
        if found is not None:
            found.give_up()

    def _drop(self, leader: SharePartitionLeader) -> None:
        leader.partition.moved.forget(leader.give_up)
        if self._leaders.get((leader.group, leader.partition)) is leader:
            del self._leaders[leader.group, leader.partition]
