"""The last part of a ShareFetch response with rewritten addresses: everything else and the length stay the same."""

from __future__ import annotations

import pytest

from kshare.protocol.envelopes import decode_response, encode_response
from kshare.protocol.messages import ShareFetchResponse
from kshare.protocol.messages.share_fetch_response import (
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
)
from kshare.protocol.primitives import join_tags, split_tags
from kshare.trace.request_heads import RequestHead
from kshare.trace.response_stream import ResponseStream
from kshare.trace.response_tail import TAIL, has_no_addresses

VERSION = 2
BROKER, HERE = "kafka-1.example.com", "10.0.0.1"


def response(tags: dict[int, bytes], *endpoints: NodeEndpoint) -> ShareFetchResponse:
    """Too large to be held back completely."""
    data = PartitionData(0, records=bytes(2 * TAIL))
    return ShareFetchResponse(
        responses=[ShareFetchableTopicResponse(bytes(16), [data])],
        node_endpoints=list(endpoints),
        unknown_tags=join_tags(tags),
    )


def passed_on(sent: bytes) -> ShareFetchResponse:
    stream = ResponseStream(
        {7: RequestHead(ShareFetchResponse.API_KEY, VERSION, 7)}, lambda host, port: (HERE, 5)
    )
    out = b"".join(bytes(piece) for piece in stream.feed(sent))
    assert len(out) == len(sent)
    return decode_response(ShareFetchResponse, VERSION, memoryview(out)[4:])[1]


@pytest.mark.parametrize(
    "tags", [{0: b"new"}, {3: b"", 99: b"x" * 200}, {100: b"ours?", 101: b"", 200: b"ours, too?"}]
)
@pytest.mark.parametrize("rack", [None, "a"])
def test_unknown_tags_are_kept(tags: dict[int, bytes], rack: str | None) -> None:
    frame = encode_response(response(tags, NodeEndpoint(1, BROKER, 9092, rack)), VERSION, 7)
    came = passed_on(bytes(frame))
    assert came.node_endpoints == [NodeEndpoint(1, HERE, 5, rack)]
    found, _ = split_tags(came.unknown_tags, 0)
    assert {number: found[number] for number in tags} == tags
    assert len(found) == len(tags) + 1  # padding in place of a longer host name


def test_tags_of_an_address_are_kept() -> None:
    tags = join_tags({0: b"in another rack"})
    frame = encode_response(response({}, NodeEndpoint(1, BROKER, 9092, unknown_tags=tags)), VERSION, 7)
    assert passed_on(bytes(frame)).node_endpoints == [NodeEndpoint(1, HERE, 5, unknown_tags=tags)]


def test_tail_without_addresses_is_recognized() -> None:
    assert has_no_addresses(response({}).encode(VERSION)[-TAIL:], VERSION)
    assert not has_no_addresses(response({}, NodeEndpoint(1, "k", 1)).encode(VERSION)[-TAIL:], VERSION)
    assert not has_no_addresses(response({0: b"new"}).encode(VERSION)[-TAIL:], VERSION)
