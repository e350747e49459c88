"""Faults of a cluster. After each, the cluster is complete again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from kshare.protocol.message import Message, Request
from kshare.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from kshare.protocol.messages.alter_partition_reassignments_request import (
    ReassignablePartition,
    ReassignableTopic,
)
from kshare.protocol.messages.elect_leaders_request import TopicPartitions
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from tests.helpers.plain_client import plain_client
from tests.integration.storm import GROUP, TOPIC, Storm
from tools.kafka.cluster import Cluster
from tools.kafka.node import Node

ResponseT = TypeVar("ResponseT", bound=Message)

FREEZE_S = 6.0
"""Longer than a broker's session with the controller: when it resumes, another broker is the leader."""
_DEADLINE_S = 60.0


async def kill(storm: Storm, node: Node, who: str) -> None:
    def act() -> None:
        node.kill()
        storm.cluster.restart(node)

    await storm.note(f"killed node {node.id}, {who}, and restarted it", act)


async def kill_a_leader(storm: Storm, partition: int = 0) -> None:
    await kill(storm, leader(storm.cluster, partition), f"leader of partition {partition}")


async def kill_the_coordinator(storm: Storm) -> None:
    await kill(storm, coordinator(storm.cluster), "coordinator of the group")


async def move_leaders(storm: Storm) -> None:
    """Move the leader of every partition to its next replica, by reassignment."""

    def act() -> None:
        for number, (_, replicas) in sorted(partitions(storm.cluster).items()):
            move(storm.cluster, number, [*replicas[1:], replicas[0]])

    await storm.note("moved the leader of every partition by reassignment", act)


async def freeze_a_leader(storm: Storm, partition: int = 0) -> None:
    def act() -> None:
        node = leader(storm.cluster, partition)
        node.pause()
        time.sleep(FREEZE_S)
        node.resume()
        storm.cluster.wait_until_ready()

    await storm.note(f"froze the leader of partition {partition} for {FREEZE_S:g} s", act)


async def restart_each(storm: Storm) -> None:
    """Shut down and restart one node after another, as in a rolling upgrade."""
    for node in storm.cluster.nodes:

        def act(node: Node = node) -> None:
            node.stop()
            storm.cluster.restart(node)

        await storm.note(f"shut down node {node.id} and restarted it", act)
        await storm.has_progressed(20)


# --- leaders and coordinators


def leader(cluster: Cluster, partition: int) -> Node:
    return cluster.nodes[partitions(cluster)[partition][0] - 1]


def partitions(cluster: Cluster) -> dict[int, tuple[int, list[int]]]:
    """Leader and replicas of each partition. Waits until every partition has a leader."""

    def ask() -> dict[int, tuple[int, list[int]]]:
        (topic,) = _ask(cluster, MetadataRequest([MetadataRequestTopic(name=TOPIC)])).topics
        return {row.partition_index: (row.leader_id, list(row.replica_nodes)) for row in topic.partitions}

    return _until(ask, lambda found: bool(found) and all(node > 0 for node, _ in found.values()))


def coordinator(cluster: Cluster) -> Node:
    def ask() -> int:
        response = _ask(cluster, FindCoordinatorRequest(coordinator_keys=[GROUP]))
        return response.coordinators[0].node_id

    return cluster.nodes[_until(ask, lambda found: found > 0) - 1]


def move(cluster: Cluster, partition: int, replicas: list[int]) -> None:
    topic = ReassignableTopic(TOPIC, [ReassignablePartition(partition, replicas)])
    response = _ask(cluster, AlterPartitionReassignmentsRequest(topics=[topic]))
    assert response.error_code == 0, response

    def lead() -> int:
        _ask(cluster, ElectLeadersRequest(0, [TopicPartitions(TOPIC, [partition])]))
        return partitions(cluster)[partition][0]

    _until(lead, lambda found: found == replicas[0])


def _ask(cluster: Cluster, request: Request[ResponseT]) -> ResponseT:
    node = next(node for node in cluster.nodes if node.is_running and not node.is_paused)
    with plain_client(node.address()) as client:
        return client.ask(request)


ResultT = TypeVar("ResultT")


def _until(ask: Callable[[], ResultT], is_so: Callable[[ResultT], bool]) -> ResultT:
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        found = ask()
        if is_so(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
