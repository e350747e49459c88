"""Share requests to several nodes: which node responds, and which leader the others' responses name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshare.broker.cluster import Node
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    ReadShareGroupStateSummaryRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages import read_share_group_state_summary_request as summary
from kshare.protocol.messages import share_acknowledge_request as acknowledge
from kshare.protocol.messages import share_fetch_request as fetch
from kshare.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kshare.protocol.messages.share_fetch_response import PartitionData
from kshare.testing import Broker
from tests.helpers.plain_client import PlainClient, plain_client

GROUP, MEMBER, TOPIC = "g", "member", "orders"
RECORDS = 10
DEADLINE_S = 10.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"share.coordinator.state.topic.num.partitions": "1", "offsets.topic.num.partitions": "1"}
    with Broker(nodes=2, topics={TOPIC: 1}, settings=settings) as broker:
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        broker.produce(TOPIC, [b"%d" % number for number in range(RECORDS)])
        yield broker


def _nodes(broker: Broker) -> tuple[Node, Node]:
    """The node that coordinates the group and leads the partition, and the other node."""
    cluster = broker.state.cluster

    def find() -> tuple[Node, Node]:
        coordinator = cluster.coordinator(0, GROUP)
        assert coordinator is not None
        (other,) = (node for node in cluster.nodes.values() if node is not coordinator)
        partition = cluster.partition(TOPIC, 0)
        if partition.leader != coordinator.id:
            cluster.move_leader(partition, coordinator.id)
        return coordinator, other

    return broker.call(find)


def _ask_fetch(client: PlainClient, broker: Broker, epoch: int, wait_ms: int = 0) -> ShareFetchResponse:
    topic = broker.state.cluster.topics[TOPIC]
    rows = [fetch.FetchTopic(topic.id, [fetch.FetchPartition(0)])] if not epoch else []
    return client.ask(ShareFetchRequest(GROUP, MEMBER, epoch, wait_ms, 1, 1 << 20, 100, 100, topics=rows))


def _only(response: ShareFetchResponse) -> PartitionData:
    assert response.error_code == 0, response
    [[partition]] = [topic.partitions for topic in response.responses]
    return partition


def test_wrong_node_returns_not_coordinator_or_not_leader(broker: Broker) -> None:
    _, other = _nodes(broker)
    topic = broker.state.cluster.topics[TOPIC]
    with plain_client((other.host, other.port)) as client:
        beat = client.ask(ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, [TOPIC]))
        assert beat.error_code == ErrorCode.NOT_COORDINATOR
        described = client.ask(ShareGroupDescribeRequest([GROUP]))
        assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        rows = [summary.ReadStateSummaryData(topic.id, [summary.PartitionData(0, 0)])]
        state_home = broker.call(lambda: broker.state.cluster.coordinating_partition(2, "any").leader)
        response = client.ask(ReadShareGroupStateSummaryRequest(GROUP, rows))
        expected = 0 if state_home == other.id else ErrorCode.NOT_COORDINATOR
        assert response.results[0].partitions[0].error_code == expected
        found = _only(_ask_fetch(client, broker, 0))
        assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert found.current_leader.leader_id != other.id


def test_old_leader_names_the_new_one_which_redelivers(broker: Broker) -> None:
    coordinator, other = _nodes(broker)
    topic = broker.state.cluster.topics[TOPIC]
    with (
        plain_client((coordinator.host, coordinator.port)) as client,
        plain_client((other.host, other.port)) as elsewhere,
    ):
        client.ask(ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, [TOPIC]))
        assert _only(_ask_fetch(client, broker, 0)).acquired_records[0].last_offset == RECORDS - 1
        accepted = _accept(client, topic.id, 1, 0, 3)
        assert accepted == 0
        broker.call(
            lambda: broker.state.cluster.move_leader(broker.state.cluster.partition(TOPIC, 0), other.id)
        )
        assert _accept(client, topic.id, 2, 4, 5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        response = _ask_fetch(client, broker, 3)
        found = _only(response)
        assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (
            other.id,
            broker.state.cluster.partition(TOPIC, 0).leader_epoch,
        )
        assert [(node.node_id, node.port) for node in response.node_endpoints] == [(other.id, other.port)]
        assert _only(_ask_fetch(elsewhere, broker, 0)).acquired_records[0].first_offset == 4


def test_waiting_fetch_returns_when_the_leader_moves(broker: Broker) -> None:
    coordinator, other = _nodes(broker)
    with plain_client((coordinator.host, coordinator.port)) as client:
        client.ask(ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, [TOPIC]))
        _ask_fetch(client, broker, 0)
        partition = broker.state.cluster.partition(TOPIC, 0)
        timer = broker.call(
            lambda: broker.state.clock.after(
                100, lambda: broker.state.cluster.move_leader(partition, other.id)
            )
        )
        response = _ask_fetch(client, broker, 1, wait_ms=int(DEADLINE_S * 1000))
        assert not timer.is_pending
        assert _only(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def _accept(client: PlainClient, topic_id: bytes, epoch: int, first: int, last: int) -> int:
    batches = [acknowledge.AcknowledgementBatch(first, last, b"\x01")]
    rows = [acknowledge.AcknowledgeTopic(topic_id, [acknowledge.AcknowledgePartition(0, batches)])]
    response = client.ask(ShareAcknowledgeRequest(GROUP, MEMBER, epoch, False, rows))
    assert response.error_code == 0, response
    return response.responses[0].partitions[0].error_code
