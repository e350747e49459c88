"""The metadata one client needs: the brokers, the topics' names and ids, and the leaders of partitions.

Any broker's metadata may be stale, so newer information wins, whatever its source: a leader with a higher epoch, more
partitions, a topic's new id. A topic that a broker doesn't know may be too new for it, or deleted: only time tells.
Requests ask by name for the topics that the user wants and by id for those assigned; one request can't do both.

    a topic | event                                           | next    | effect
    --------+-------------------------------------------------+---------+-----------------------------------------------
    new     | assigned, with an unknown id                    | missing | asked for by id, soon
    missing | response with its name and partitions           | known   |
    known   | leader with the same or a higher epoch          | known   | taken over
    known   | leader with a lower epoch                       | known   | ignored: that broker is stale
    known   | a partition has no leader, or one without an    | known   | asked for by id, soon
            | address; a broker refused to serve it; it is    |         |
            | assigned and not known, as the topic has grown  |         |
    these 2 | unknown to the broker that was asked            | doubted | asked for by name and by id in turn: it may be
            |                                                 |         | recreated, deleted, or too new for that broker
    doubted | response with its name and partitions           | known   |
    doubted | still unknown after the grace period            | gone    | TopicGone
    known,  | its name now belongs to another id              | gone    | TopicGone
    doubted |                                                 |         |
    gone    | response with its name and partitions within    | gone    | ignored: that broker is stale
            | the grace period                                |         |
    gone    | the same later                                  | known   | it exists after all; asked for while assigned

Pauses between requests in quick succession grow; after a quiet time they start over. Everything else is refreshed when
it is `REFRESH_S` old.

Decides what to ask next and which information to trust, never which topics matter or which broker to ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kshare.protocol.error_codes import RETRIABLE, ErrorCode
from kshare.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kshare.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kshare.state.lease import TopicIdPartition
from kshare.state.session import Leader

_UNKNOWN = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID}
_NOTHING: Mapping[bytes, Iterable[int]] = {}
REFRESH_S = 300.0
"""How old metadata may get."""
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0
"""Pauses between requests in quick succession double up to the longest."""
GRACE_S = 5.0
"""How long a topic may be unknown before it counts as deleted."""


class BrokerNode(NamedTuple):
    host: str
    port: int
    rack: str | None


class NodeEndpoint(Protocol):
    """A broker's address, as responses of all kinds hold it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class TopicDeleted(NamedTuple):
    """The topic was deleted, or recreated under another id: what waits for this id ends with UNKNOWN_TOPIC_ID."""

    topic_id: bytes
    name: str | None


class Rebootstrap(NamedTuple):
    """The broker asks the client to start again from the bootstrap servers (KIP-1102)."""


ClusterEvent = TopicDeleted | Rebootstrap


@dataclass(slots=True)
class _Topic:
    name: str
    leaders: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Node and leader epoch by partition; node -1 while there is no leader."""


class ClusterView:
    """One client's view of its cluster."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        """Error codes of wanted topics without metadata: missing, not permitted, or with an invalid name."""
        self._nodes: dict[int, BrokerNode] = {}
        self._topics: dict[bytes, _Topic] = {}
        self._ids: dict[str, bytes] = {}
        self._names: frozenset[str] = frozenset()
        self._assigned: Mapping[bytes, frozenset[int]] = {}
        self._doubted: set[bytes] = set()
        self._unknown_since: dict[bytes, float] = {}
        self._deleted: dict[bytes, float] = {}
        self._under_way: MetadataRequest | None = None
        self._is_outdated = True
        self._refresh_at = float("-inf")
        self._requested_at = float("-inf")
        self._pause = 0.0

    # --- what is known

    @property
    def nodes(self) -> Mapping[int, BrokerNode]:
        return self._nodes

    @property
    def missing_ids(self) -> frozenset[bytes]:
        """Assigned topic ids that no broker has resolved yet."""
        return frozenset(self._assigned.keys() - self._topics.keys() - self._deleted.keys())

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._topics.get(topic_id)
        return topic.name if topic else None

    def leader_of(self, topic_id: bytes, partition: int) -> tuple[int, int] | None:
        """Node and leader epoch; None while there is no leader, or its address isn't known."""
        topic = self._topics.get(topic_id)
        leader = topic.leaders.get(partition) if topic else None
        return leader if leader and leader[0] in self._nodes else None

    # --- what to ask

    def want(self, names: Iterable[str], assigned: Mapping[bytes, Iterable[int]] = _NOTHING) -> None:
        """Replaces what matters: `names` are the topics that the user wants, `assigned` the partitions by topic id."""
        names = frozenset(names)
        if names - self._names:
            self._is_outdated = True
        self._names = names
        self._assigned = {topic_id: frozenset(numbers) for topic_id, numbers in assigned.items()}
        self.refused = {name: code for name, code in self.refused.items() if name in names}
        self._doubted &= self._assigned.keys()

    @property
    def wake_at(self) -> float | None:
        """When there is something to ask; None while a response is awaited."""
        if self._under_way is not None:
            return None
        earliest = self._requested_at + self._pause
        if self._is_outdated or self._ids_to_request():
            return earliest
        return max(earliest, self._refresh_at)

    def request(self, now: float) -> MetadataRequest | None:
        """The next request, for any broker; pass it to `on_metadata` with its response."""
        if self.wake_at is None or now < self.wake_at:
            return None
        if now - self._requested_at > 2 * _MAX_PAUSE_S:
            self._pause = 0.0
        longer = max(_MIN_PAUSE_S, 2 * self._pause)
        self._pause = min(longer, _MAX_PAUSE_S)
        self._requested_at = now
        if self._is_outdated or now >= self._refresh_at:
            names = self._names | {
                self._topics[topic_id].name for topic_id in self._assigned.keys() & self._topics.keys()
            }
            rows = [MetadataRequestTopic(name=name) for name in sorted(names)]
        else:
            rows = [MetadataRequestTopic(topic_id, None) for topic_id in sorted(self._ids_to_request())]
        self._under_way = MetadataRequest(rows, allow_auto_topic_creation=False)
        return self._under_way

    def _ids_to_request(self) -> set[bytes]:
        """Assigned topics whose metadata is incomplete or in doubt."""
        wanted = {topic_id for topic_id in self._assigned if self._is_incomplete(topic_id)} | self._doubted
        return (wanted | self.missing_ids | self._unknown_since.keys()) - self._deleted.keys()

    def _is_incomplete(self, topic_id: bytes) -> bool:
        topic = self._topics.get(topic_id)
        if topic is None or not self._assigned[topic_id] <= topic.leaders.keys():
            return True
        return any(node not in self._nodes for node, _ in topic.leaders.values())

    # --- what got a response

    def on_metadata(
        self, request: MetadataRequest, response: MetadataResponse, now: float
    ) -> list[ClusterEvent]:
        if request is not self._under_way:
            return []
        self._under_way = None
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._nodes = {}
            return [Rebootstrap()]
        if response.error_code:
            return []
        self._nodes = {broker.node_id: _node(broker) for broker in response.brokers}
        requested = {topic.name for topic in request.topics or ()}
        if None in requested:
            events = self._learn_topics(response, now)
            self._is_outdated |= bool(self._unknown_since)
        else:
            self._is_outdated = not requested >= self._names
            events = self._learn_topics(response, now)
            is_odd = not self._deleted.keys().isdisjoint(self._assigned)
            wait = 2 * GRACE_S if is_odd else REFRESH_S
            self._refresh_at = now + wait
            self._deleted = {
                topic_id: at
                for topic_id, at in self._deleted.items()
                if topic_id in self._assigned or self._is_stale(topic_id, now)
            }
        return events

    def on_no_response(self) -> None:
        """The connection ended, or the request timed out; another broker may be asked."""
        self._under_way = None

    def on_moved(
        self,
        partitions: Iterable[TopicIdPartition],
        leaders: Sequence[Leader],
        endpoints: Iterable[NodeEndpoint] = (),
    ) -> None:
        """A broker refused to serve these partitions. `leaders` and `endpoints`: where they are now, as it says."""
        self._nodes |= {endpoint.node_id: _node(endpoint) for endpoint in endpoints}
        explained = {leader.partition for leader in leaders if self._learn_leader(leader)}
        self._doubted |= {topic_id for topic_id, _ in set(partitions) - explained} & self._assigned.keys()

    def _learn_topics(self, response: MetadataResponse, now: float) -> list[ClusterEvent]:
        events: list[ClusterEvent] = []
        for topic in response.topics:
            if topic.error_code:
                events += self._on_refused(topic, now)
            elif topic.name is not None and not self._is_stale(topic.topic_id, now):
                events += self._on_known(topic.name, topic, now)
        return events

    def _is_stale(self, topic_id: bytes, now: float) -> bool:
        """Whether a broker that still lists this topic is more likely stale than we are wrong."""
        return topic_id in self._deleted and now - self._deleted[topic_id] < GRACE_S

    def _on_known(self, name: str, topic: MetadataResponseTopic, now: float) -> list[ClusterEvent]:
        topic_id, previous_id = topic.topic_id, self._ids.get(name)
        self._ids[name] = topic_id
        self.refused.pop(name, None)
        self._deleted.pop(topic_id, None)
        self._unknown_since.pop(topic_id, None)
        self._doubted.discard(topic_id)
        self._topics.setdefault(topic_id, _Topic(name))
        for row in topic.partitions:
            self._learn_leader(Leader((topic_id, row.partition_index), row.leader_id, row.leader_epoch))
        return [] if previous_id in (None, topic_id) else [self._mark_deleted(previous_id, now)]

    def _on_refused(self, topic: MetadataResponseTopic, now: float) -> list[ClusterEvent]:
        name, code = topic.name, topic.error_code
        if name in self._names:
            self.refused[name] = code
        if code not in _UNKNOWN:
            self._is_outdated |= code in RETRIABLE
            return []
        topic_id = topic.topic_id if name is None else self._ids.get(name)
        if topic_id is None or topic_id in self._deleted:
            return []
        self._doubted.discard(topic_id)
        since = self._unknown_since.setdefault(topic_id, now)
        return [self._mark_deleted(topic_id, now)] if now - since >= GRACE_S else []

    def _mark_deleted(self, topic_id: bytes, now: float) -> TopicDeleted:
        topic = self._topics.pop(topic_id, None)
        if topic and self._ids.get(topic.name) == topic_id:
            del self._ids[topic.name]
        self._unknown_since.pop(topic_id, None)
        self._doubted.discard(topic_id)
        self._deleted[topic_id] = now
        return TopicDeleted(topic_id, topic.name if topic else None)

    def _learn_leader(self, leader: Leader) -> bool:
        """Takes this leader unless a newer one is known; returns whether it is the current one then."""
        topic_id, number = leader.partition
        topic = self._topics.get(topic_id)
        if topic is None:
            return False
        current = topic.leaders.get(number)
        if current is None or leader.epoch >= current[1]:
            topic.leaders[number] = (leader.node, leader.epoch)
        return topic.leaders[number] == (leader.node, leader.epoch)


def _node(endpoint: NodeEndpoint) -> BrokerNode:
    return BrokerNode(endpoint.host, endpoint.port, endpoint.rack)
