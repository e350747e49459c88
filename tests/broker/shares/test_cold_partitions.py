"""A session's first fetch of share-partitions that aren't loaded is answered as soon as one of them is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshare.protocol.messages import (
    DescribeShareGroupOffsetsRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.protocol.messages import describe_share_group_offsets_request as describe
from kshare.protocol.messages import share_fetch_request as fetch
from kshare.testing import Broker
from tests.helpers.plain_client import PlainClient, plain_client

GROUP, MEMBER, TOPIC = "g", "member", "orders"
PARTITIONS = 3
WAIT_MS = 10_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={TOPIC: PARTITIONS}) as broker:
        broker.set_group_config(GROUP, {"share.auto.offset.reset": "earliest"})
        for partition in range(PARTITIONS):
            broker.produce(TOPIC, [b"x"] * 50, partition=partition)
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[PlainClient]:
    host, port = broker.bootstrap.split(":")
    with plain_client((host, int(port))) as client:
        client.ask(ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, [TOPIC]))
        yield client


def _fetched(client: PlainClient, broker: Broker, epoch: int, *partitions: int) -> list[int]:
    """The partitions for which the response has records."""
    rows = [fetch.FetchPartition(partition) for partition in partitions]
    topics = [fetch.FetchTopic(broker.state.cluster.topics[TOPIC].id, rows)] if rows else []
    response = client.ask(
        ShareFetchRequest(GROUP, MEMBER, epoch, WAIT_MS, 1, 1 << 20, 500, 500, topics=topics)
    )
    assert response.error_code == 0, response
    rows_with_records = [p for topic in response.responses for p in topic.partitions if p.acquired_records]
    return sorted(row.partition_index for row in rows_with_records)


def test_first_fetch_returns_one_cold_partition_and_the_next_fetch_the_others(
    client: PlainClient, broker: Broker
) -> None:
    assert _fetched(client, broker, 0, *range(PARTITIONS)) == [0]
    assert _fetched(client, broker, 1) == [1, 2]


def test_a_loaded_partition_with_records_does_not_wait_for_cold_ones(
    client: PlainClient, broker: Broker
) -> None:
    assert _fetched(client, broker, 0, 0) == [0]
    broker.produce(TOPIC, [b"y"])
    assert _fetched(client, broker, 1, 1, 2) == [0]
    assert _fetched(client, broker, 2) == [1, 2]


def test_offsets_are_unknown_for_partitions_without_deliveries(client: PlainClient, broker: Broker) -> None:
    assert _fetched(client, broker, 0, *range(PARTITIONS)) == [0]
    closing = ShareFetchRequest(GROUP, MEMBER, -1)
    assert client.ask(closing).error_code == 0
    asked = describe.DescribeShareGroupOffsetsRequestGroup(GROUP, None)
    (group,) = client.ask(DescribeShareGroupOffsetsRequest([asked])).groups
    found = {row.partition_index: (row.start_offset, row.lag) for row in group.topics[0].partitions}
    assert found == {0: (0, 50), 1: (-1, -1), 2: (-1, -1)}
