"""The view of a backlog: settled records are left out, and reading it has no effect on the group."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kshare.broker.settings import Resource
from kshare.errors import NotAuthorized
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from kshare.spark.backlog import BacklogReader
from kshare.spark.executor.connections import close_connections
from kshare.spark.options import ReadOptions
from kshare.sync import ShareConsumer
from kshare.testing import Broker

Row = tuple[int, int, int]
"""Partition, offset and deliveries."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one
        close_connections()


def view(broker: Broker, topic: str, **more: str) -> BacklogReader:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "group": f"of-{topic}", "subscribe": topic, **more}
    return BacklogReader(ReadOptions.parse({**given, "deliveryCount": "true"}, is_streaming=False))


def rows(reader: BacklogReader) -> list[Row]:
    return [
        (row["partition"], row["offset"], row["deliveryCount"])
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def topic(broker: Broker, name: str, reset: str = "earliest", partitions: int = 1) -> None:
    broker.create_topic(name, partitions)
    broker.set_group_config(f"of-{name}", {"share.auto.offset.reset": reset})
    for partition in range(partitions):
        broker.produce(name, [b"%d" % number for number in range(10)], partition=partition)


def consume(broker: Broker, name: str, decide: Callable[[int], str], count: int = 10) -> None:
    with ShareConsumer(
        broker.bootstrap, group=f"of-{name}", topics=[name], acknowledgement="explicit"
    ) as consumer:
        seen = set()
        for record in consumer:
            getattr(record, decide(record.offset))()
            seen.add((record.partition, record.offset))  # released ones may come again before the others
            if len(seen) == count:
                break


def test_the_backlog_of_a_new_group_starts_where_the_group_would(broker: Broker) -> None:
    topic(broker, "early", partitions=2)
    assert rows(view(broker, "early")) == [
        (partition, offset, 0) for partition in (0, 1) for offset in range(10)
    ]
    topic(broker, "late", "latest")
    assert rows(view(broker, "late")) == []
    topic(broker, "lately", "by_duration:PT1H")
    assert len(rows(view(broker, "lately"))) == 10


def test_settled_records_are_left_out(broker: Broker) -> None:
    topic(broker, "settled")
    consume(broker, "settled", lambda offset: ("accept", "release", "reject")[offset % 3])
    left = [offset for offset in range(10) if offset % 3 == 1]
    released = rows(view(broker, "settled"))
    assert [offset for _, offset, _ in released] == left
    assert all(deliveries > 0 for _, _, deliveries in released)
    broker.produce("settled", [b"new"])
    assert rows(view(broker, "settled")) == [*released, (0, 10, 0)]


def test_a_view_is_fixed_when_it_is_planned(broker: Broker) -> None:
    topic(broker, "fixed")
    reader = view(broker, "fixed")
    tasks = reader.partitions()
    broker.produce("fixed", [b"later"])
    consume(broker, "fixed", lambda _: "accept")
    for _ in range(2):
        assert [batch.num_rows for task in tasks for batch in reader.read(task)] == [10]
    assert [offset for _, offset, _ in rows(view(broker, "fixed"))] == [10]


def test_nothing_is_acquired(broker: Broker) -> None:
    topic(broker, "untouched")
    memberships = [
        broker.faults.add(api, times=None) for api in (ShareGroupHeartbeatRequest, ShareFetchRequest)
    ]
    assert len(rows(view(broker, "untouched"))) == 10
    for fault in memberships:
        fault.stop()
    assert [fault.hits for fault in memberships] == [0, 0]


def test_more_tasks_than_partitions(broker: Broker) -> None:
    topic(broker, "cut")
    reader = view(broker, "cut", minPartitions="4")
    sizes = [[batch.num_rows for batch in reader.read(task)] for task in reader.partitions()]
    assert sizes == [[2], [3], [2], [3]]


def test_an_empty_view_has_one_empty_task(broker: Broker) -> None:
    broker.create_topic("empty", 1)
    reader = view(broker, "empty")
    assert [list(reader.read(task)) for task in reader.partitions()] == [[]]


def test_read_committed_groups_see_no_further_than_the_first_open_transaction(broker: Broker) -> None:
    topic(broker, "committed")
    broker.call(
        lambda: broker.state.configs.replace(
            Resource.GROUP,
            "of-committed",
            {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"},
        )
    )
    reader = view(broker, "committed")
    assert all(task.is_committed_only for task in reader.partitions())
    assert len(rows(reader)) == 10


def test_an_error_names_the_missing_permission(broker: Broker) -> None:
    topic(broker, "denied")

    def refuse(response: DescribeConfigsResponse) -> None:
        response.results[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    broker.faults.add(DescribeConfigsRequest, change=refuse)
    with pytest.raises(NotAuthorized, match="DescribeConfigs on group of-denied"):
        view(broker, "denied").partitions()
