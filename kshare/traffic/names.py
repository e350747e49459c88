"""Names of topics and nodes, learned from the traffic.

Decides how a topic is displayed while its name is unknown.
"""

from __future__ import annotations

from kshare.protocol.json_form import uuid_text
from kshare.protocol.messages.create_topics_response import CreateTopicsResponse
from kshare.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kshare.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from kshare.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kshare.protocol.messages.metadata_response import MetadataResponse
from kshare.traffic.exchange import Exchange
from kshare.traffic.mentions import Mentions

_NO_TOPIC = bytes(16)
_SHORT_ID = 8


class Names:
    def __init__(self) -> None:
        self._topics: dict[bytes, str] = {}
        """How topics are displayed: by name as soon as it is known."""
        self._named: set[bytes] = set()
        self._nodes: dict[str, int] = {}

    def topic(self, topic_id: bytes) -> str:
        """Its name, or the beginning of its id."""
        name = self._topics.get(topic_id)
        if name is None:
            name = self._topics[topic_id] = f"{uuid_text(topic_id)[:_SHORT_ID]}…"
        return name

    def topics(self, mentioned: Mentions) -> set[str]:
        """All mentioned topics, by name or id."""
        return mentioned.topics | {self.topic(id_) for id_ in mentioned.topic_ids if id_ != _NO_TOPIC}

    def calls(self, mentioned: Mentions) -> set[str]:
        """All names that users may use for the mentioned topics: names, ids, and the displayed beginnings of ids."""
        return self.topics(mentioned) | {uuid_text(id_) for id_ in mentioned.topic_ids}

    def unnamed(self, mentioned: Mentions) -> set[bytes]:
        """Mentioned topics whose names are unknown."""
        return {id_ for id_ in mentioned.topic_ids if id_ != _NO_TOPIC} - self._named

    def name(self, topic_id: bytes) -> str | None:
        return self._topics[topic_id] if topic_id in self._named else None

    def partition(self, topic_id: bytes, number: int) -> str:
        """orders-0"""
        return f"{self.topic(topic_id)}-{number}"

    def node(self, server: str) -> str:
        """The node's number, or its address while the number is unknown."""
        number = self._nodes.get(server)
        return server if number is None else f"node {number}"

    def learn(self, exchange: Exchange) -> None:
        match exchange.response:
            case MetadataResponse() | DescribeTopicPartitionsResponse() | CreateTopicsResponse() as mentioned:
                for topic in mentioned.topics:
                    if topic.name and topic.topic_id != _NO_TOPIC:
                        self._topics[topic.topic_id] = topic.name
                        self._named.add(topic.topic_id)
        match exchange.response:
            case MetadataResponse() as metadata:
                for node in metadata.brokers:
                    self._learn_node(node.node_id, node.host, node.port)
            case DescribeClusterResponse() as described:
                for broker in described.brokers:
                    self._learn_node(broker.broker_id, broker.host, broker.port)
            case FindCoordinatorResponse() as found:
                for coordinator in found.coordinators:
                    if coordinator.node_id >= 0 and coordinator.host:
                        self._learn_node(coordinator.node_id, coordinator.host, coordinator.port)

    def _learn_node(self, number: int, host: str, port: int) -> None:
        self._nodes[f"[{host}]:{port}" if ":" in host else f"{host}:{port}"] = number
