"""Injected faults, seen from a plain client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeClusterRequest,
    FetchRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
    ShareFetchRequest,
)
from kshare.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kshare.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kshare.protocol.records import read_batches
from kshare.testing import Broker, corrupt_records
from tests.broker.batches import batch
from tests.helpers.plain_client import DEADLINE_S, PlainClient, plain_client


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1}) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[PlainClient]:
    with plain_client(address(broker)) as client:
        yield client


def address(broker: Broker) -> tuple[str, int]:
    host, _, port = broker.bootstrap.split(",")[0].partition(":")
    return host, int(port)


def produce(client: PlainClient) -> int:
    now = batch(1, timestamp=int(time.time() * 1000))  # old records would be deleted at once, by retention.ms
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, now)])
    response = client.ask(ProduceRequest(acks=-1, topic_data=[data]), version=11)
    return response.responses[0].partition_responses[0].error_code


def test_error_is_returned_for_the_given_number_of_requests(broker: Broker, client: PlainClient) -> None:
    fault = broker.faults.add(ProduceRequest, times=2, skip=1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [produce(client) for _ in range(4)] == [0, 6, 6, 0]
    assert fault.hits == 2
    assert len(broker.records("t")) == 2


def test_fault_applies_only_to_matching_requests(broker: Broker, client: PlainClient) -> None:
    broker.faults.add(MetadataRequest, client="somebody else", hang_up=True)
    broker.faults.add(MetadataRequest, when=lambda request: request.topics is None, hang_up=True)
    assert client.ask(MetadataRequest([MetadataRequestTopic(name="t")])).topics[0].error_code == 0
    with pytest.raises(AssertionError, match="hung up"):
        client.ask(MetadataRequest(None))


def test_fault_applies_only_to_its_node() -> None:
    with Broker(nodes=2) as cluster:
        fault = cluster.faults.add(MetadataRequest, node=2, error=ErrorCode.UNKNOWN_SERVER_ERROR)
        with plain_client(address(cluster)) as client:
            client.ask(MetadataRequest(None))
        assert fault.hits == 0


@pytest.mark.parametrize(
    ("fault", "is_done"),
    [({"hang_up": True}, False), ({"cut_after": 0}, True), ({"cut_after": 11}, True)],
)
def test_connection_is_closed_before_or_during_the_response(
    broker: Broker, client: PlainClient, fault: dict[str, int], is_done: bool
) -> None:
    broker.faults.add(ProduceRequest, **fault)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="hung up"):
        produce(client)
    assert bool(broker.records("t")) == is_done
    with plain_client(address(broker)) as again:
        assert produce(again) == 0


@pytest.mark.lengthy
@pytest.mark.parametrize(("fault", "is_done"), [({"swallow": True}, False), ({"mute": True}, True)])
def test_response_is_never_sent(
    broker: Broker, client: PlainClient, fault: dict[str, bool], is_done: bool
) -> None:
    broker.faults.add(ProduceRequest, **fault)  # type: ignore[arg-type]
    client.connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        produce(client)
    deadline = time.monotonic() + DEADLINE_S
    while is_done and not broker.records("t") and time.monotonic() < deadline:  # it may be executed later
        time.sleep(0.01)
    assert bool(broker.records("t")) == is_done


@pytest.mark.lengthy
@pytest.mark.parametrize("which", ["before_ms", "after_ms"])
def test_delayed_response_does_not_delay_other_connections(
    broker: Broker, client: PlainClient, which: str
) -> None:
    broker.faults.add(DescribeClusterRequest, **{which: 300})  # type: ignore[arg-type]
    began = time.monotonic()
    with plain_client(address(broker)) as other:
        assert client.ask(DescribeClusterRequest()).controller_id == 1
        late = time.monotonic() - began
        other.ask(DescribeClusterRequest())
    assert late >= 0.3


def test_fault_calls_a_function(broker: Broker, client: PlainClient) -> None:
    cluster = broker.state.cluster
    partition = cluster.partition("t", 0)
    broker.faults.add(ProduceRequest, do=lambda: cluster.move_leader(partition, 1))
    assert produce(client) == 0
    assert broker.call(lambda: partition.leader_epoch) == 1


def test_corrupt_batch_is_returned_once(broker: Broker, client: PlainClient) -> None:
    broker.produce("t", [b"x"])
    broker.faults.add(FetchRequest, change=corrupt_records)
    topic = broker.call(lambda: broker.state.cluster.topics["t"].id)
    request = FetchRequest(
        topics=[FetchTopic(topic_id=topic, partitions=[FetchPartition(0, partition_max_bytes=1000)])]
    )
    for is_broken in (True, False):
        records = client.ask(request).responses[0].partitions[0].records or b""
        (found,) = read_batches(records)
        if is_broken:
            with pytest.raises(ValueError, match="checksum"):
                found.open()
        else:
            assert [record.value for record in found] == [b"x"]


def test_faults_are_removed(broker: Broker, client: PlainClient) -> None:
    broker.faults.add(times=None, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert client.ask(DescribeClusterRequest()).error_code == -1
    broker.faults.stop()
    assert client.ask(DescribeClusterRequest()).error_code == 0


@pytest.mark.parametrize(
    ("request_", "code_of"),
    [
        (ApiVersionsRequest("x", "1"), lambda response: response.error_code),
        (
            FindCoordinatorRequest(coordinator_keys=["g"]),
            lambda response: response.coordinators[0].error_code,
        ),
        (MetadataRequest([MetadataRequestTopic(name="t")]), lambda response: response.topics[0].error_code),
        (ShareFetchRequest("g", "m"), lambda response: response.error_code),
        (
            ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0)])]),
            lambda response: response.topics[0].partitions[0].error_code,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_error_can_be_returned_for_any_request(
    broker: Broker, client: PlainClient, request_: MetadataRequest, code_of: Callable[[object], int]
) -> None:
    broker.faults.add(type(request_), error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert code_of(client.ask(request_)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_error_for_a_response_without_a_single_error_field_is_refused(broker: Broker) -> None:
    with pytest.raises(ValueError, match="CreateTopicsResponse has no single error field"):
        broker.faults.add(CreateTopicsRequest, error=ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("name", ["when", "do", "change"])
def test_error_of_a_function_is_reported_with_its_name(name: str) -> None:
    def fail(*_: object) -> bool:
        raise ValueError("oops")

    said = f"the function '{name}' of a fault raised ValueError\\('oops'\\) for DescribeClusterRequest"
    broker = Broker()
    broker.start()
    broker.faults.add(DescribeClusterRequest, **{name: fail}, after_ms=1)  # type: ignore[arg-type]
    with plain_client(address(broker)) as client, pytest.raises(AssertionError, match="hung up"):
        client.ask(DescribeClusterRequest())
    with pytest.raises(ExceptionGroup, match=f"the embedded broker failed: ConfigError: {said}"):
        broker.stop()
