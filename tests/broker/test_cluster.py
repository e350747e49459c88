"""Topics, leaders and coordinators."""

from __future__ import annotations

from itertools import count

import pytest

from kshare.broker.cluster import OFFSETS_TOPIC, Cluster, Node
from kshare.broker.configs import Configs
from kshare.broker.request_error import RequestError
from kshare.broker.settings import Resource


def cluster_of(nodes: int) -> Cluster:
    numbers = count(1)
    cluster = Cluster(Configs(), "cluster", lambda: next(numbers).to_bytes(16, "big"))
    for number in range(1, nodes + 1):
        cluster.add_node(Node(number))
    return cluster


def test_partitions_are_spread_over_the_nodes() -> None:
    cluster = cluster_of(3)
    topic = cluster.create_topic("t", 4, 2)
    assert [(each.leader, each.replicas) for each in topic.partitions] == [
        (1, [1, 2]),
        (2, [2, 3]),
        (3, [3, 1]),
        (1, [1, 2]),
    ]
    assert cluster.find("t") is cluster.find(topic.id) is topic
    assert cluster.partition(topic.id, 3) is topic.partitions[3]


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "code"),
    [
        ("t", 1, 1, "TOPIC_ALREADY_EXISTS"),
        ("t_1.2", 1, 1, "INVALID_TOPIC_EXCEPTION"),
        ("a b", 1, 1, "INVALID_TOPIC_EXCEPTION"),
        ("..", 1, 1, "INVALID_TOPIC_EXCEPTION"),
        ("x" * 250, 1, 1, "INVALID_TOPIC_EXCEPTION"),
        ("n", 0, 1, "INVALID_PARTITIONS"),
        ("n", 1, 0, "INVALID_REPLICATION_FACTOR"),
        ("n", 1, 2, "INVALID_REPLICATION_FACTOR"),
    ],
)
def test_invalid_topics_are_refused(name: str, partitions: int, replicas: int, code: str) -> None:
    cluster = cluster_of(1)
    cluster.create_topic("t")
    cluster.create_topic("t.1_2")
    with pytest.raises(RequestError, match=code):
        cluster.create_topic(name, partitions, replicas)
    assert list(cluster.topics) == ["t", "t.1_2"]


def test_recreated_topic_has_another_id_and_listeners_of_the_old_one_are_notified() -> None:
    cluster, gone = cluster_of(1), list[str]()
    cluster.topic_deleted.append(lambda topic: gone.append(topic.name))
    old = cluster.create_topic("t", configs={"retention.ms": "5"})
    told: list[int] = []
    old.partitions[0].moved.listen(lambda: told.append(old.partitions[0].leader))
    cluster.delete_topic(old)
    new = cluster.create_topic("t")
    assert new.id != old.id
    assert cluster.find(old.id) is None
    assert (told, gone) == ([-1], ["t"])
    assert cluster.configs.topic("t", "retention.ms") == "604800000"
    with pytest.raises(RequestError, match="UNKNOWN_TOPIC_ID"):
        cluster.partition(old.id, 0)
    with pytest.raises(RequestError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        cluster.partition("t", 1)


def test_leaders_move_when_their_node_stops_and_leader_epochs_increase() -> None:
    cluster = cluster_of(2)
    topic = cluster.create_topic("t", 2, 2)
    cluster.set_up(cluster.nodes[1], False)
    assert [(each.leader, each.leader_epoch) for each in topic.partitions] == [(2, 1), (2, 0)]
    with pytest.raises(RequestError, match="NOT_LEADER_OR_FOLLOWER"):
        cluster.partition_led_by("t", 0, cluster.nodes[1])
    cluster.set_up(cluster.nodes[2], False)
    assert [each.leader for each in topic.partitions] == [-1, -1]
    cluster.set_up(cluster.nodes[1], True)
    assert [each.leader for each in topic.partitions] == [1, 1]
    with pytest.raises(RequestError, match="FENCED_LEADER_EPOCH"):
        topic.partitions[0].check_epoch(1)
    with pytest.raises(RequestError, match="UNKNOWN_LEADER_EPOCH"):
        topic.partitions[0].check_epoch(99)


def test_coordinators_are_chosen_as_in_kafka() -> None:
    cluster = cluster_of(1)
    # Java: Math.abs("orders".hashCode()) % 50 and so on
    assert cluster.coordinating_partition(0, "orders").index == abs(-1008770331) % 50
    assert cluster.coordinating_partition(0, "").index == 0
    assert cluster.topics[OFFSETS_TOPIC].is_internal
    assert len(cluster.topics[OFFSETS_TOPIC].partitions) == 50
    assert cluster.coordinator(2, "group:id:0") is cluster.nodes[1]


def test_partitions_are_added() -> None:
    cluster = cluster_of(1)
    topic = cluster.create_topic("t", 2)
    with pytest.raises(RequestError, match="INVALID_PARTITIONS"):
        cluster.add_partitions(topic, 2)
    with pytest.raises(RequestError, match="INVALID_REPLICA_ASSIGNMENT"):
        cluster.add_partitions(topic, 3, [[7]])
    cluster.add_partitions(topic, 4)
    assert [each.index for each in topic.partitions] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "setting", ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"]
)
def test_excessively_many_partitions_of_internal_topics_are_refused_at_the_start(setting: str) -> None:
    name = f"{setting}.num.partitions"
    with pytest.raises(
        RequestError, match=f"20000 for configuration {name}: the embedded broker allows up to 10000"
    ):
        Cluster(Configs({name: "20000"}), "cluster", lambda: bytes(16))
    Cluster(Configs({name: "10000"}), "cluster", lambda: bytes(16))


def test_log_limits_follow_the_topic_configuration() -> None:
    cluster = cluster_of(1)
    topic = cluster.create_topic("t", configs={"max.message.bytes": "100"})
    assert topic.partitions[0].log.limits.max_batch_bytes == 100
    cluster.configs.replace(Resource.TOPIC, "t", {"message.timestamp.type": "LogAppendTime"})
    limits = topic.partitions[0].log.limits
    assert (limits.max_batch_bytes, limits.uses_append_time) == (1_048_588, True)
