"""All share-partitions and share sessions of a broker, by node.

Decides which share-partitions are loaded: one is when it is first asked for at its leader, and is given up when the
leader moves, its topic goes or its state was set anew. Ends sessions, and gives back what they held.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshare.broker.cluster import Node, Partition
from kshare.broker.connection import ClientConnection
from kshare.broker.refusal import Refusal
from kshare.broker.shares.led_partition import LedPartition
from kshare.broker.shares.sessions import OPEN, Owner, ShareSession, ShareSessions, TopicPartition
from kshare.broker.shares.surroundings import Surroundings
from kshare.protocol.error_codes import ErrorCode

_MOST_SESSIONS = "group.share.max.share.sessions"


class Shares:
    def __init__(self, parts: Surroundings) -> None:
        self._parts = parts
        self._sessions: dict[int, ShareSessions] = {}
        self._led: dict[tuple[str, Partition], LedPartition] = {}

    # --- sessions

    def sessions(self, node: Node) -> ShareSessions:
        return self._sessions.setdefault(node.id, ShareSessions())

    def session_for(self, owner: Owner, epoch: int, connection: ClientConnection) -> ShareSession:
        """The session of a request, new or going on; raises Refusal."""
        sessions = self.sessions(connection.node)
        if epoch != OPEN:
            return sessions.go_on(owner, epoch)
        session = sessions.open(owner, connection.number, self._parts.configs.broker_number(_MOST_SESSIONS))
        connection.on_closed("share sessions", lambda: self._end_all(connection))
        return session

    def end(self, session: ShareSession, node: Node) -> None:
        """Closes the session and gives back what it acquired."""
        if self.sessions(node).close(session):
            self._release(session.owner, session.partitions)

    def _end_all(self, connection: ClientConnection) -> None:
        for session in self.sessions(connection.node).of_connection(connection.number):
            self._parts.counters.evictions[connection.node.id] += 1
            self.end(session, connection.node)

    def _release(self, owner: Owner, partitions: Iterable[TopicPartition]) -> None:
        group, member = owner
        for topic_id, index in partitions:
            topic = self._parts.cluster.find(topic_id)
            if topic is None or index >= len(topic.partitions):
                continue
            led = self._led.get((group, topic.partitions[index]))
            if led is not None:
                led.release(member)

    # --- share-partitions

    def led(self, group: str, topic_partition: TopicPartition, node: Node) -> tuple[LedPartition, bool]:
        """The share-partition, and whether it had to be loaded; raises Refusal."""
        partition = self._parts.cluster.led_partition(*topic_partition, node)
        found = self._led.get((group, partition))
        is_cold = found is None
        if found is None:
            with self._parts.counters.partition_loads.measured():
                found = LedPartition(group, partition, self._parts, self._drop)
            self._led[group, partition] = found
            partition.moved.listen(found.give_up)
        return found, is_cold

    def find(self, group: str, topic_partition: TopicPartition, node: Node) -> LedPartition:
        """The share-partition as it was loaded for a fetch; raises Refusal if it wasn't."""
        partition = self._parts.cluster.led_partition(*topic_partition, node)
        found = self._led.get((group, partition))
        if found is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def loaded(self) -> Iterable[LedPartition]:
        return self._led.values()

    def reload(self, group: str, partition: Partition) -> None:
        """Its state was initialized again by another request."""
        found = self._led.get((group, partition))
        if found is not None:
            found.give_up()

    def _drop(self, led: LedPartition) -> None:
        led.partition.moved.forget(led.give_up)
        if self._led.get((led.group, led.partition)) is led:
            del self._led[led.group, led.partition]
