"""What a fetch of classic consumers returns, and how much."""

from __future__ import annotations

import pytest

from kshare.protocol.messages import FetchRequest
from kshare.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kshare.testing import Broker
from tests.broker.raw import Raw

UNLIMITED = 2**31 - 1
BY_NAME = 12


def fetch(*topics: tuple[str, list[FetchPartition]]) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=UNLIMITED,
        topics=[FetchTopic(name, partitions=partitions) for name, partitions in topics],
    )


def part(index: int = 0, offset: int = 0) -> FetchPartition:
    return FetchPartition(index, fetch_offset=offset, partition_max_bytes=UNLIMITED)


def test_partition_that_is_named_several_times_is_returned_once() -> None:
    with Broker(topics={"a": 2, "b": 1}) as broker, Raw(broker) as raw:
        broker.produce("a", [b"1", b"2"], partition=0)
        request = fetch(("a", [part(), part(), part(1)]), ("b", [part()]), ("a", [part(0, 2), part(1)]))
        response = raw.ask(request, BY_NAME)
    found = [
        (topic.topic, [(each.partition_index, bool(each.records)) for each in topic.partitions])
        for topic in response.responses
    ]
    assert found == [("a", [(0, False), (1, False)]), ("b", [(0, False)])]


@pytest.mark.parametrize(("limit", "batches"), [("1024", 1), ("2500", 2), ("57671680", 3)])
def test_response_is_limited_by_a_setting(limit: str, batches: int) -> None:
    with Broker(topics={"a": 3}, settings={"fetch.max.bytes": limit}) as broker, Raw(broker) as raw:
        for index in range(3):
            broker.produce("a", [bytes(1100)], partition=index)
        response = raw.ask(fetch(("a", [part(0), part(1), part(2)])), BY_NAME)
    assert [bool(each.records) for each in response.responses[0].partitions].count(True) == batches


def test_fetch_of_nothing_has_response_at_once() -> None:
    with Broker() as broker, Raw(broker) as raw:
        raw.socket.settimeout(10)
        request = fetch()
        request.max_wait_ms = 60_000
        assert raw.ask(request, BY_NAME).responses == []
