"""Forwarded responses: unchanged however they are split, except that addresses become those of the proxy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kshare.errors import DecodeError
from kshare.protocol.envelopes import decode_response, encode_response
from kshare.protocol.message import Message
from kshare.protocol.messages import (
    ApiVersionsResponse,
    DescribeClusterResponse,
    DescribeGroupsResponse,
    FetchResponse,
    FindCoordinatorResponse,
    MetadataResponse,
    ProduceResponse,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
)
from kshare.protocol.messages import share_fetch_response as fetched
from kshare.protocol.messages.api_versions_response import ApiVersion
from kshare.protocol.messages.describe_cluster_response import DescribeClusterBroker
from kshare.protocol.messages.fetch_response import NodeEndpoint as FetchEndpoint
from kshare.protocol.messages.find_coordinator_response import Coordinator
from kshare.protocol.messages.metadata_response import MetadataResponseBroker
from kshare.protocol.messages.produce_response import NodeEndpoint as ProduceEndpoint
from kshare.protocol.messages.share_acknowledge_response import NodeEndpoint as AcknowledgeEndpoint
from kshare.trace.request_heads import RequestHead, RequestHeadReader
from kshare.trace.response_stream import ResponseStream
from kshare.trace.response_tail import TAIL

HERE = ("127.0.0.1", 19093)


def passed_on(
    stream: bytes, asked: list[RequestHead], sizes: list[int], here: tuple[str, int] = HERE
) -> bytes:
    responses = ResponseStream(
        {request.correlation_id: request for request in asked}, lambda host, port: here
    )
    out = bytearray()
    at = turn = 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        for piece in responses.feed(stream[at : at + size]):
            out += piece
        at, turn = at + size, turn + 1
    return bytes(out)


def framed(response: Message, version: int, correlation_id: int) -> bytes:
    return bytes(encode_response(response, version, correlation_id))


def records(size: int, endpoints: list[fetched.NodeEndpoint]) -> ShareFetchResponse:
    data = fetched.PartitionData(0, records=bytes(size), acquired_records=[fetched.AcquiredRecords(0, 9, 1)])
    topic = fetched.ShareFetchableTopicResponse(bytes(16), [data])
    return ShareFetchResponse(responses=[topic], node_endpoints=endpoints)


@given(st.lists(st.integers(1, 9000), min_size=1, max_size=20), st.lists(st.integers(0, 12_000), max_size=5))
@settings(max_examples=40)
def test_responses_without_addresses_are_unchanged(sizes: list[int], bodies: list[int]) -> None:
    asked, stream = [], bytes(4)  # starts with an empty SASL token
    for number, size in enumerate(bodies):
        asked.append(RequestHead(78, 2, number))
        stream += framed(records(size, []), 2, number)
        stream += framed(DescribeGroupsResponse(), 5, 1000 + number)  # without a request
    assert passed_on(stream, asked, sizes) == stream


MOVED: list[tuple[Message, int]] = [
    (MetadataResponse(brokers=[MetadataResponseBroker(1, "kafka-1.example.com", 9092)]), 13),
    (MetadataResponse(brokers=[MetadataResponseBroker(1, "k", 9092)]), 4),
    (FindCoordinatorResponse(coordinators=[Coordinator("g", 1, "kafka-1", 9092)]), 6),
    (FindCoordinatorResponse(node_id=1, host="kafka-1", port=9092), 2),
    (DescribeClusterResponse(brokers=[DescribeClusterBroker(1, "kafka-1", 9092)]), 2),
    (FetchResponse(node_endpoints=[FetchEndpoint(1, "kafka-1", 9092)]), 17),
    (ProduceResponse(node_endpoints=[ProduceEndpoint(1, "kafka-1", 9092)]), 12),
    (ShareAcknowledgeResponse(node_endpoints=[AcknowledgeEndpoint(1, "kafka-1.eu", 9092)]), 2),
    (records(10_000, [fetched.NodeEndpoint(1, "kafka-1.example.com", 9092)]), 2),
]


@pytest.mark.parametrize(("response", "version"), MOVED, ids=lambda one: type(one).__name__ if one else "")
def test_addresses_become_those_of_the_proxy(response: Message, version: int) -> None:
    frame = framed(response, version, 7)
    out = passed_on(frame, [RequestHead(response.API_KEY, version, 7)], [1000])
    correlation_id, moved = decode_response(type(response), version, memoryview(out)[4:])
    assert correlation_id == 7
    assert int.from_bytes(out[:4], "big") == len(out) - 4
    assert b"kafka-1" not in out
    assert HERE[0].encode() in out
    assert moved != response


@pytest.mark.parametrize("size", range(3985, 4015))
def test_addresses_at_the_end_of_what_is_held_back_are_replaced(size: int) -> None:
    """Three lengths of a response kept the broker's addresses: what was held back began within its size."""
    frame = framed(records(size, [fetched.NodeEndpoint(0, "h", 9092, None)]), 2, 7)
    out = passed_on(frame, [RequestHead(78, 2, 7)], [50], ("p", 5))
    _, moved = decode_response(ShareFetchResponse, 2, memoryview(out)[4:])
    assert [(endpoint.host, endpoint.port) for endpoint in moved.node_endpoints] == [("p", 5)]


@pytest.mark.lengthy
@given(
    st.integers(100, 9000),
    st.lists(
        st.tuples(st.text("abc.", min_size=1, max_size=90), st.none() | st.text("r", max_size=60)), max_size=4
    ),
)
@settings(max_examples=200)
def test_rewritten_fetch_responses_keep_their_length_for_any_host_names(
    size: int, brokers: list[tuple[str, str | None]]
) -> None:
    endpoints = [fetched.NodeEndpoint(n, host, 9092, rack) for n, (host, rack) in enumerate(brokers)]
    frame = framed(records(size, endpoints), 2, 7)
    for host in ("h", "127.0.0.1", "a-proxy-with-a-name-of-its-own.example.com"):
        out = passed_on(frame, [RequestHead(78, 2, 7)], [50], (host, 5))
        assert int.from_bytes(out[:4], "big") == len(out) - 4
        assert len(out) == len(frame) or size < TAIL
        _, moved = decode_response(ShareFetchResponse, 2, memoryview(out)[4:])
        assert all((endpoint.host, endpoint.port) == (host, 5) for endpoint in moved.node_endpoints)
        assert len(moved.node_endpoints) in (0, len(endpoints))
        assert moved.responses == decode_response(ShareFetchResponse, 2, memoryview(frame)[4:])[1].responses


def test_versions_unknown_to_us_are_not_offered() -> None:
    offered = ApiVersionsResponse(
        api_keys=[ApiVersion(3, 0, 99), ApiVersion(79, 1, 2), ApiVersion(12, 0, 99)]
    )
    out = passed_on(framed(offered, 4, 7), [RequestHead(18, 4, 7)], [1000])
    _, limited = decode_response(ApiVersionsResponse, 4, memoryview(out)[4:])
    assert [key.max_version for key in limited.api_keys] == [MetadataResponse.VERSIONS[1], 2, 99]


def test_other_protocols_are_refused() -> None:
    with pytest.raises(DecodeError, match="1213486160"):
        passed_on(b"HTTP/1.1 400 Bad Request", [], [100])


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_request_headers_are_read_however_they_are_split(sizes: list[int]) -> None:
    def request(key: int, version: int, number: int, rest: int) -> bytes:
        body = key.to_bytes(2, "big") + version.to_bytes(2, "big") + number.to_bytes(4, "big") + bytes(rest)
        return len(body).to_bytes(4, "big") + body

    stream = request(3, 12, 1, 40) + b"\0\0\0\2ab" + request(78, 2, 2, 0) + bytes(4) + request(79, 1, 3, 7)
    reader, found, at, turn = RequestHeadReader(), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        found += list(reader.feed(stream[at : at + size]))
        at, turn = at + size, turn + 1
    assert found == [RequestHead(3, 12, 1), RequestHead(78, 2, 2), RequestHead(79, 1, 3)]
