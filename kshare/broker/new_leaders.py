"""The new leaders that a response tells, so that clients needn't request metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kshare.broker.cluster import Cluster

EndpointT = TypeVar("EndpointT")


class NewLeaders:
    """The leaders of the partitions that a node was asked for and doesn't lead any longer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ids: set[int] = set()

    def find(self, topic: str | bytes, index: int) -> tuple[int, int]:
        """The id of the partition's leader, and the leader epoch."""
        partition = self._cluster.partition(topic, index)
        self._ids.add(partition.leader)
        return partition.leader, partition.leader_epoch

    def endpoints(self, endpoint: Callable[[int, str, int, str | None], EndpointT]) -> list[EndpointT]:
        """Where all leaders that were found are. A partition may have none at the moment."""
        nodes = [node for node in self._cluster.nodes.values() if node.id in self._ids]
        return [endpoint(node.id, node.host, node.port, node.rack) for node in nodes]
