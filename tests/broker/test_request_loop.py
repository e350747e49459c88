"""The broker's connections: valid and invalid bytes, and when a connection is closed."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from kshare.broker.cluster_server import NodeServer
from kshare.broker.handlers import handler_for
from kshare.broker.profiles import profile
from kshare.protocol import messages
from kshare.protocol.envelopes import decode_response, encode_request
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
)
from kshare.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.testing import Broker
from tests.broker.batches import batch
from tests.broker.raw import Raw

DEADLINE_S = 20.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1}) as broker:
        yield broker


def cluster_question(number: int) -> bytearray:
    return encode_request(DescribeClusterRequest(), 1, number, "raw")


def fetch(broker: Broker, number: int, wait_ms: int) -> bytearray:
    topic_id = broker.call(lambda: broker.state.cluster.topics["t"].id)
    partition = FetchPartition(0, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])]
    )
    return encode_request(request, 13, number, "raw")


def test_every_offered_api_has_a_handler_and_a_schema() -> None:
    for release in ("4.1", "4.3", "4.4"):
        for key, (first, last) in profile(release).versions.items():
            cls = getattr(messages, messages.REQUESTS[key])
            assert last <= cls.VERSIONS[1], cls.NAME
            assert first <= cls.VERSIONS[1]
            assert callable(handler_for(key))


def test_pipelined_requests_get_responses_in_order(broker: Broker) -> None:
    with Raw(broker) as raw:
        stream = b"".join(cluster_question(number) for number in range(1, 101))
        for position in range(0, len(stream), 7):
            raw.send(stream[position : position + 7])
        for number in range(1, 101):
            frame = raw.frame()
            assert frame is not None
            assert decode_response(DescribeClusterResponse, 1, frame)[0] == number


def test_response_is_sent_while_the_next_request_waits(broker: Broker) -> None:
    with Raw(broker) as raw:
        raw.send(cluster_question(1) + fetch(broker, 2, wait_ms=10 * 60_000))
        frame = raw.frame()
        assert frame is not None
        assert decode_response(DescribeClusterResponse, 1, frame)[0] == 1
        broker.produce("t", [b"x"])
        frame = raw.frame()
        assert frame is not None
        assert decode_response(FetchResponse, 13, frame)[0] == 2


def test_pending_responses_are_sent_before_the_broker_hangs_up(broker: Broker) -> None:
    with Raw(broker) as raw:
        raw.send(cluster_question(1) + cluster_question(2) + struct.pack(">ihhi", 8, 60, 99, 3))
        assert [raw.frame() is not None for _ in range(3)] == [True, True, False]


def test_unknown_version_of_api_versions_has_response_with_version_0(broker: Broker) -> None:
    with Raw(broker) as raw:
        request = encode_request(ApiVersionsRequest("x", "1"), 4, 9, "raw")
        struct.pack_into(">h", request, 6, 99)
        raw.send(request)
        frame = raw.frame()
        assert frame is not None
        number, response = decode_response(ApiVersionsResponse, 0, frame)
        assert (number, response.error_code) == (9, ErrorCode.UNSUPPORTED_VERSION)
        assert {key.api_key for key in response.api_keys} >= {0, 1, 18, 78, 79}


@pytest.mark.parametrize(
    "said",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhi", 8, 4711, 0, 1),
        struct.pack(">ihhi", 8, 60, 99, 1),
        struct.pack(">ihhih", 10, 60, 1, 1, 30000),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_invalid_request_closes_only_its_own_connection(broker: Broker, said: bytes) -> None:
    with Raw(broker) as bystander, Raw(broker) as raw:
        raw.send(said)
        assert raw.frame() is None
        bystander.send(cluster_question(1))
        assert bystander.frame() is not None
    assert broker.state.crashes == []


@pytest.mark.lengthy
def test_randomly_damaged_requests_never_crash_a_handler(broker: Broker) -> None:
    dice = random.Random(1)
    records = batch(2, timestamp=int(time.time() * 1000))  # retention.ms deletes old ones at once
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])
    requests = [
        cluster_question(1),
        fetch(broker, 1, 0),
        encode_request(ProduceRequest(acks=1, topic_data=[data]), 11, 1, "raw"),
        encode_request(ApiVersionsRequest("x", "1"), 4, 1, "raw"),
    ]
    for _ in range(200):
        mutant = bytearray(dice.choice(requests))
        for _ in range(dice.randint(1, 4)):
            mutant[dice.randrange(12, len(mutant))] = dice.randrange(256)
        with Raw(broker) as raw:
            raw.send(mutant)
            raw.socket.shutdown(socket.SHUT_WR)
            raw.frame()
    assert broker.call(lambda: broker.state.crashes) == []


def test_waiting_fetch_wakes_when_records_arrive_and_delays_no_other_connection(broker: Broker) -> None:
    with Raw(broker) as parked, Raw(broker) as other:
        parked.send(fetch(broker, 1, 15_000))
        began = time.monotonic()
        other.send(cluster_question(1))
        assert other.frame() is not None
        broker.produce("t", [b"x"])
        frame = parked.frame()
        assert frame is not None
        response = decode_response(FetchResponse, 13, frame)[1]
        assert response.responses[0].partitions[0].records
        assert time.monotonic() - began < 15


@pytest.mark.lengthy
def test_large_requests_behind_a_waiting_one_are_not_all_read(broker: Broker) -> None:
    large = bytearray(struct.pack(">ihhihx", 10_000_000, ApiVersionsRequest.API_KEY, 3, 2, -1))
    large += bytes(10_000_004 - len(large))
    with Raw(broker) as raw:
        raw.send(fetch(broker, 1, wait_ms=60_000))
        raw.socket.settimeout(2)
        with pytest.raises(TimeoutError):
            raw.send(large * 6)


@pytest.mark.lengthy
def test_requests_beyond_the_limit_of_bytes_get_responses_in_turn(broker: Broker) -> None:
    value = bytes(5_000_000)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, value)])],
    )
    with Raw(broker) as raw:
        raw.send(fetch(broker, 1, wait_ms=300) + encode_request(request, 11, 2, "raw") + cluster_question(3))
        for number in (1, 2, 3):
            frame = raw.frame()
            assert frame is not None
            assert struct.unpack_from(">i", frame)[0] == number


def test_disconnect_is_noticed_while_a_request_waits(broker: Broker) -> None:
    ended: list[int] = []
    connections = broker.call(
        lambda: [connection for server in _servers(broker) for connection in server._streams]
    )
    assert connections == []
    with Raw(broker) as raw:
        raw.send(fetch(broker, 1, 60_000))
        deadline = time.monotonic() + DEADLINE_S
        while not broker.call(lambda: broker.state.counters.requests["Fetch", 1]):
            assert time.monotonic() < deadline
        (connection,) = broker.call(lambda: [each for server in _servers(broker) for each in server._streams])
        broker.call(lambda: connection.on_closed("test", lambda: ended.append(1)))
    while not ended:
        assert time.monotonic() < deadline, "the broker didn't notice the disconnect"
        time.sleep(0.001)


def test_produce_without_acks_gets_no_response(broker: Broker) -> None:
    records = batch(2, timestamp=int(time.time() * 1000))  # retention.ms deletes old ones at once
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])
    with Raw(broker) as raw:
        raw.send(encode_request(ProduceRequest(acks=0, topic_data=[data]), 11, 1, "raw"))
        raw.send(cluster_question(2))
        frame = raw.frame()
        assert frame is not None
        assert decode_response(DescribeClusterResponse, 1, frame)[0] == 2
        assert len(broker.records("t")) == 2
        data.name = "nowhere"
        raw.send(encode_request(ProduceRequest(acks=0, topic_data=[data]), 11, 3, "raw"))
        assert raw.frame() is None


def _servers(broker: Broker) -> list[NodeServer]:
    running = broker._running
    assert running is not None
    return list(running._servers.values())
