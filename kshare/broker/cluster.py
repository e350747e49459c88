"""Nodes, topics and partitions: leaders and coordinators.

Decides placement, leadership and coordinators. All nodes are in one process and share one log per partition, so
when a leader moves, nothing is copied; only the leader epoch changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from kshare.broker.configs import Configs
from kshare.broker.log import LogLimits, PartitionLog
from kshare.broker.notifiers import Notifier
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource
from kshare.errors import ConfigError
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.topic_names import is_topic_name

TopicIdPartition = tuple[bytes, int]
"""Topic id and partition number."""
OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC = (
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
)
_PARTITION_COUNTS = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.num.partitions",
}
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
"""Key types in FindCoordinator."""
COORDINATED_BY = {
    GROUP_KEY: OFFSETS_TOPIC,
    TRANSACTION_KEY: TRANSACTIONS_TOPIC,
    SHARE_KEY: SHARE_STATE_TOPIC,
}
"""Key type → the topic whose partition leaders are the coordinators."""


@dataclass(slots=True)
class Node:
    """One broker of the cluster, as its clients see it."""

    id: int
    host: str = "127.0.0.1"
    port: int = 0
    rack: str | None = None
    is_up: bool = True


@dataclass(slots=True, eq=False)
class Partition:
    topic: Topic
    index: int
    leader: int
    """The id of the leader, or -1."""
    replicas: list[int]
    log: PartitionLog
    leader_epoch: int = 0
    moved: Notifier = field(default_factory=Notifier)
    """Fires when the leader has changed or the topic was deleted."""

    def check_epoch(self, epoch: int) -> None:
        """Raises RequestError if the client's leader epoch is older or newer than ours; -1 means not sent."""
        if 0 <= epoch < self.leader_epoch:
            raise RequestError(ErrorCode.FENCED_LEADER_EPOCH)
        if epoch > self.leader_epoch:
            raise RequestError(ErrorCode.UNKNOWN_LEADER_EPOCH)


@dataclass(slots=True, eq=False)
class Topic:
    name: str
    id: bytes
    partitions: list[Partition] = field(default_factory=list)
    is_internal: bool = False


MAX_NEW_PARTITIONS = 10_000
"""The limit for one request, as in Kafka's controller."""


class Cluster:
    """The cluster's metadata. `changed` fires after every change."""

    def __init__(self, configs: Configs, cluster_id: str, new_uuid: Callable[[], bytes]) -> None:
        self.cluster_id = cluster_id
        self.configs = configs
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.changed = Notifier()
        self.topic_deleted: list[Callable[[Topic], None]] = []
        """Called after a topic was deleted."""
        self.log_made: list[Callable[[Partition], None]] = []
        """Called for each new partition, before anything is written to it."""
        self._new_uuid = new_uuid
        configs.changed.listen(self._apply_limits)
        for setting in _PARTITION_COUNTS.values():
            if configs.broker_number(setting) > MAX_NEW_PARTITIONS:
                table = configs.setting(Resource.BROKER, setting)
                reason = f"the embedded broker allows up to {MAX_NEW_PARTITIONS}"
                raise table.refusal(configs.broker(setting), reason)

    # --- finding

    @property
    def controller(self) -> Node:
        """The node that clients see as the controller: the first live one. In Kafka, it is a separate role."""
        return next((node for node in self.nodes.values() if node.is_up), next(iter(self.nodes.values())))

    def find(self, topic: str | bytes) -> Topic | None:
        """The topic with this name or id."""
        return self.topics.get(topic) if isinstance(topic, str) else self.by_id.get(topic)

    def partition(self, topic: str | bytes, index: int) -> Partition:
        """Raises RequestError: UNKNOWN_TOPIC_OR_PARTITION, or UNKNOWN_TOPIC_ID for an id."""
        found = self.find(topic)
        if found is None:
            by_name = isinstance(topic, str)
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
            )
        if not 0 <= index < len(found.partitions):
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found.partitions[index]

    def partition_led_by(self, topic: str | bytes, index: int, node: Node) -> Partition:
        """The partition, if this node leads it. Otherwise raises NOT_LEADER_OR_FOLLOWER."""
        partition = self.partition(topic, index)
        if partition.leader != node.id:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def partitions(self) -> Iterator[Partition]:
        for topic in self.topics.values():
            yield from topic.partitions

    def coordinating_partition(self, kind: int, key: str) -> Partition:
        """The partition whose leader is the coordinator. As in real brokers, its topic is created when first needed."""
        name = COORDINATED_BY[kind]
        topic = self.topics.get(name) or self._create_internal(name)
        return topic.partitions[abs(_java_hash(key)) % len(topic.partitions)]

    def coordinator(self, kind: int, key: str) -> Node | None:
        """The coordinator, or None if the partition has no leader."""
        return self.nodes.get(self.coordinating_partition(kind, key).leader)

    def _create_internal(self, name: str) -> Topic:
        count = self.configs.broker_number(_PARTITION_COUNTS[name])
        return self.create_topic(name, count, configs={"cleanup.policy": "compact"})

    # --- nodes

    def add_node(self, node: Node) -> None:
        self.nodes[node.id] = node
        self.changed.fire()

    def set_up(self, node: Node, is_up: bool) -> None:
        """Start or stop a node. Partitions without a live leader move to a live replica."""
        node.is_up = is_up
        for partition in self.partitions():
            leader = self.nodes.get(partition.leader)
            if leader is None or not leader.is_up:
                live = [each for each in partition.replicas if self.nodes[each].is_up]
                self.move_leader(partition, live[0] if live else -1)
        self.changed.fire()

    def move_leader(self, partition: Partition, leader: int) -> None:
        """Set the leader, which may be the current one. The leader epoch increases in any case."""
        partition.leader = leader
        partition.leader_epoch += 1
        if leader >= 0 and leader not in partition.replicas:
            partition.replicas.append(leader)
        partition.moved.fire()
        self.changed.fire()

    # --- topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int = -1,
        assignment: Mapping[int, list[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        topic_id: bytes | None = None,
    ) -> Topic:
        """If it raises RequestError, nothing has changed."""
        self.check_new_topic(name, partitions, replicas, assignment, configs or {})
        topic = Topic(name, topic_id or self._new_uuid(), is_internal=name in _PARTITION_COUNTS)
        if configs:
            self.configs.replace(Resource.TOPIC, name, configs)
        self._extend(topic, len(assignment) if assignment else partitions, replicas, assignment)
        self.topics[name] = topic
        self.by_id[topic.id] = topic
        self.changed.fire()
        return topic

    def missing_topics(self, wanted: Mapping[str, int | None]) -> dict[str, int]:
        """The topics that don't exist yet, with their numbers of partitions: None is any number, and 1 for a new topic.

        Raises ConfigError if a topic of the data folder has another number.
        """
        for name, count in wanted.items():
            if name in self.topics and count not in (None, len(self.topics[name].partitions)):
                found = len(self.topics[name].partitions)
                raise ConfigError(
                    f"topic {name!r} has {found} partition{'' if found == 1 else 's'} in the data folder, not "
                    f"{count}: write {found}, or use another folder"
                )
        return {name: count or 1 for name, count in wanted.items() if name not in self.topics}

    def restore_topic(self, name: str, topic_id: bytes, partitions: list[tuple[int, list[int], int]]) -> None:
        """Restore a topic. `partitions` has the leader epoch, replicas and start offset of each."""
        topic = Topic(name, topic_id, is_internal=name in _PARTITION_COUNTS)
        assignment = {}
        for index, (_, replicas, _) in enumerate(partitions):
            here = [node for node in replicas if node in self.nodes]
            assignment[index] = here or self._place(index, 1)
        self._extend(topic, len(partitions), 1, assignment, [start for _, _, start in partitions])
        for partition, (epoch, _, _) in zip(topic.partitions, partitions, strict=True):
            partition.leader_epoch = epoch
        self.topics[name] = topic
        self.by_id[topic_id] = topic

    def check_new_topic(
        self,
        name: str,
        partitions: int,
        replicas: int,
        assignment: Mapping[int, list[int]] | None,
        configs: Mapping[str, str],
    ) -> None:
        """Raises RequestError if the topic can't be created."""
        check_topic_name(name)
        if name in self.topics:
            raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if other := self._same_in_metrics(name):
            reason = f"Topic '{name}' collides with existing topic: {other}"
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if assignment:
            self._check_assignment(assignment, 0)
        else:
            if partitions <= 0:
                raise RequestError(
                    ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid value."
                )
            if partitions > MAX_NEW_PARTITIONS:
                reason = "Excessively large number of partitions per request."
                raise RequestError(ErrorCode.POLICY_VIOLATION, reason)
            self._check_replicas(replicas)
        self.configs.check(Resource.TOPIC, configs)

    def _same_in_metrics(self, name: str) -> str | None:
        """A topic whose name differs in dots and underscores only: names of metrics don't tell them apart."""
        shown = name.replace(".", "_")
        if "_" not in shown or name in _PARTITION_COUNTS:
            return None
        return next((each for each in self.topics if each.replace(".", "_") == shown), None)

    def delete_topic(self, topic: Topic) -> None:
        del self.topics[topic.name], self.by_id[topic.id]
        self.configs.forget(Resource.TOPIC, topic.name)
        for partition in topic.partitions:
            partition.leader = -1
            partition.moved.fire()
        for callback in self.topic_deleted:
            callback(topic)
        self.changed.fire()

    def add_partitions(self, topic: Topic, total: int, assignments: list[list[int]] | None = None) -> None:
        """If it raises RequestError, nothing has changed."""
        given = self.check_more_partitions(topic, total, assignments)
        self._extend(topic, total, len(topic.partitions[0].replicas), given)
        self.changed.fire()

    def check_more_partitions(
        self, topic: Topic, total: int, assignments: list[list[int]] | None
    ) -> dict[int, list[int]] | None:
        current = len(topic.partitions)
        if total <= current:
            reason = f"The topic {topic.name} currently has {current} partition(s); {total} would not be an increase."
            raise RequestError(ErrorCode.INVALID_PARTITIONS, reason)
        if assignments is None:
            return None
        if len(assignments) != total - current:
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "there must be one assignment for each new partition"
            )
        given = dict(enumerate(assignments, start=current))
        self._check_assignment(given, current)
        return given

    def _extend(
        self,
        topic: Topic,
        total: int,
        replicas: int,
        assignment: Mapping[int, list[int]] | None,
        starts: list[int] | None = None,
    ) -> None:
        for index in range(len(topic.partitions), total):
            nodes = list(assignment[index]) if assignment else self._place(index, replicas)
            log = PartitionLog(self._limits(topic.name), starts[index] if starts else 0)
            leader = next((each for each in nodes if self.nodes[each].is_up), -1)
            partition = Partition(topic, index, leader, nodes, log)
            topic.partitions.append(partition)
            for callback in self.log_made:
                callback(partition)

    def _place(self, index: int, replicas: int) -> list[int]:
        ids = sorted(node.id for node in self.nodes.values() if node.is_up)
        wanted = len(ids) if replicas < 0 else replicas
        return [ids[(index + step) % len(ids)] for step in range(wanted)]

    def _check_replicas(self, replicas: int) -> None:
        live = sum(node.is_up for node in self.nodes.values())
        if replicas == 0 or replicas < -1:
            raise RequestError(
                ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
            )
        if replicas > live:
            reason = (
                f"Unable to replicate the partition {replicas} time(s): only {live} broker(s) are registered."
            )
            raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)

    def _check_assignment(self, assignment: Mapping[int, list[int]], first: int) -> None:
        if sorted(assignment) != list(range(first, first + len(assignment))):
            raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partition numbers must be consecutive")
        for nodes in assignment.values():
            if not nodes or len(set(nodes)) != len(nodes) or not set(nodes) <= self.nodes.keys():
                raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"invalid replicas: {nodes}")

    def _limits(self, topic: str) -> LogLimits:
        return LogLimits(
            self.configs.topic_number(topic, "max.message.bytes"),
            self.configs.topic(topic, "message.timestamp.type") == "LogAppendTime",
            "compact" in self.configs.topic(topic, "cleanup.policy") and topic not in _PARTITION_COUNTS,
        )

    def _apply_limits(self) -> None:
        for topic in self.topics.values():
            limits = self._limits(topic.name)
            for partition in topic.partitions:
                partition.log.limits = limits


def check_topic_name(name: str) -> None:
    if not is_topic_name(name):
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {name!r}")


@lru_cache(maxsize=4096)
def _java_hash(text: str) -> int:
    """The result of Java's String.hashCode, by which brokers choose coordinators."""
    value = 0
    units = text.encode("utf-16-be")
    for position in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[position : position + 2], "big")) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value
