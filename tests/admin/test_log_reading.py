"""Reading a log from followers: what is asked of whom, and that the leader helps out whenever a follower can't."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anyio
import pytest

from kshare.admin.log_reading import LogReader
from kshare.errors import BrokerError, ConnectionLost, KshareError, RequestTimedOut
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import FetchRequest, FetchResponse, MetadataResponse
from kshare.protocol.messages.fetch_response import FetchableTopicResponse, PartitionData
from kshare.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic

TOPIC = b"0123456789abcdef"
WHERE = (TOPIC, 0)
LEADER, FOLLOWER = 1, 2


class Cluster:
    """In place of a router: one partition, led by node 1, which names node 2 to whoever tells a rack."""

    def __init__(self, failure: KshareError | None = None, *, is_behind: bool = False) -> None:
        self.failure, self.is_behind = failure, is_behind
        self.asked: list[tuple[int, str]] = []
        """The nodes that got fetches, and the racks in them."""

    async def retry(self, step: Callable[[float], Any]) -> Any:
        return await step(anyio.current_time() + 60)

    def learn(self, _: object) -> None:
        """The addresses aren't needed."""

    async def ask(
        self, node: int | None, request: Any, errors_of: Callable[[Any], Iterable[object]], deadline: float
    ) -> Any:
        assert deadline > anyio.current_time()
        if not isinstance(request, FetchRequest):
            led = MetadataResponsePartition(partition_index=0, leader_id=LEADER)
            return MetadataResponse(
                topics=[MetadataResponseTopic(name="orders", topic_id=TOPIC, partitions=[led])]
            )
        assert node is not None
        self.asked.append((node, request.rack_id))
        if node == FOLLOWER:
            if self.failure is not None:
                raise self.failure
            return response(b"" if self.is_behind else b"of the follower")
        return response(b"", FOLLOWER) if request.rack_id else response(b"of the leader")


def response(records: bytes, preferred: int = -1) -> FetchResponse:
    row = PartitionData(0, high_watermark=9, records=records, preferred_read_replica=preferred)
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC, partitions=[row])])


async def records(reader: LogReader) -> bytes:
    return bytes((await reader.fetch(WHERE, 5)).records)


@pytest.mark.anyio
async def test_the_follower_in_the_rack_is_read_once_the_leader_has_named_it() -> None:
    cluster = Cluster()
    reader = LogReader(cluster, rack="east")  # type: ignore[arg-type]
    assert [await records(reader) for _ in range(2)] == [b"of the follower"] * 2
    assert cluster.asked == [(LEADER, "east"), (FOLLOWER, "east"), (FOLLOWER, "east")]


@pytest.mark.anyio
async def test_without_a_rack_the_leader_is_read() -> None:
    cluster = Cluster()
    assert await records(LogReader(cluster)) == b"of the leader"  # type: ignore[arg-type]
    assert cluster.asked == [(LEADER, "")]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "failure",
    [
        BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, "reading"),
        BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, "reading"),
        BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "reading"),
        BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, "reading"),
        ConnectionLost("gone"),
        RequestTimedOut("silent"),
        None,
    ],
    ids=str,
)
async def test_the_leader_is_read_while_the_follower_fails_or_is_behind(failure: KshareError | None) -> None:
    cluster = Cluster(failure, is_behind=failure is None)
    reader = LogReader(cluster, rack="east")  # type: ignore[arg-type]
    assert [await records(reader) for _ in range(2)] == [b"of the leader"] * 2
    assert cluster.asked == [(LEADER, "east"), (FOLLOWER, "east"), (LEADER, ""), (LEADER, "")]
