"""Bytes of both directions become exchanges, however they are split, and also after missing bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.protocol.envelopes import encode_request, encode_response
from kshare.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kshare.protocol.messages.share_fetch_response import PartitionData, ShareFetchableTopicResponse
from kshare.traffic import Connection, Exchange, ExchangeDecoder, Frame

LINK = Connection(1, "10.0.0.1:5000", "10.0.0.2:9092")


def request(number: int) -> bytes:
    return bytes(encode_request(ShareFetchRequest("shippers", "me", number), 2, number, "truck-7"))


def response(number: int, size: int = 300) -> bytes:
    data = PartitionData(0, records=bytes(size))
    return bytes(
        encode_response(
            ShareFetchResponse(responses=[ShareFetchableTopicResponse(bytes(16), [data])]), 2, number
        )
    )


def ids(exchanges: list[Exchange]) -> list[int]:
    return [exchange.correlation_id for exchange in exchanges if exchange.response is not None]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=40))
def test_exchanges_are_decoded_however_the_bytes_are_split(sizes: list[int]) -> None:
    talk = ExchangeDecoder(LINK)
    asked = b"".join(map(request, range(5)))
    responded = b"".join(map(response, range(5)))
    done: list[Exchange] = []
    for data, take in ((asked, talk.client_sends), (responded, talk.server_sends)):
        at = share = 0
        while at < len(data):
            size = sizes[share % len(sizes)]
            done += take(data[at : at + size], 1.0)
            at, share = at + size, share + 1
    assert ids(done) == [0, 1, 2, 3, 4]
    assert not any(exchange.problem for exchange in done)
    assert talk.end(2.0) == []


def test_exchange_has_times_and_sizes() -> None:
    talk = ExchangeDecoder(LINK)
    talk.client_sends(request(7), 10.0)
    (done,) = talk.server_sends(response(7), 10.5)
    assert (done.seconds, done.api, done.client_id) == (0.5, "ShareFetch", "truck-7")
    assert len(done.request_frame) == len(request(7)) - 4


def test_capture_that_starts_within_frames() -> None:
    talk = ExchangeDecoder(LINK, is_joined_late=True)
    done = talk.client_sends(request(1)[9:] + request(2), 1.0)
    done += talk.server_sends(response(1)[50:] + response(2), 1.0)
    done += talk.client_sends(request(3), 1.0)
    done += talk.server_sends(response(3), 1.0)
    assert ids(done) == [2, 3]
    assert not any(exchange.problem for exchange in done)


def test_exchanges_after_missing_bytes_are_matched_and_lost_ones_reported() -> None:
    talk = ExchangeDecoder(LINK)
    for number in range(4):
        talk.client_sends(request(number), 1.0)
    done = talk.server_sends(response(0) + response(1)[:40], 1.0)
    talk.server_lost(1.0)
    done += talk.server_sends(response(2)[70:], 1.0)
    done += talk.server_sends(response(3), 1.0)
    assert ids(done) == [0, 3]
    assert [exchange.correlation_id for exchange in done if exchange.is_unheard] == [1, 2]


def test_missing_request_bytes_lose_only_their_own_exchanges() -> None:
    talk = ExchangeDecoder(LINK)
    talk.client_sends(request(0)[:20], 1.0)
    talk.client_lost(1.0)
    talk.client_sends(request(1)[30:] + request(2), 1.0)
    assert ids(talk.server_sends(response(0) + response(1) + response(2), 1.0)) == [2]


@given(st.binary(max_size=2000), st.binary(max_size=2000), st.booleans())
def test_arbitrary_bytes_are_handled(one: bytes, other: bytes, is_late: bool) -> None:
    talk = ExchangeDecoder(LINK, is_joined_late=is_late)
    talk.client_sends(one, 1.0)
    talk.server_sends(other, 1.0)
    talk.client_sends(request(1), 1.0)
    talk.server_sends(response(1), 1.0)
    talk.end(1.0)


def test_http_is_not_kafka() -> None:
    talk = ExchangeDecoder(LINK)
    talk.client_sends(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n", 1.0)
    assert not talk.is_kafka


def test_produce_without_acks_expects_no_response() -> None:
    talk = ExchangeDecoder(LINK)
    sent = bytes(encode_request(ProduceRequest(acks=0), 12, 1, None))
    (done,) = talk.client_sends(sent, 1.0)
    assert not done.expects_response
    assert talk.end(2.0) == []


def test_refused_api_versions_has_response_in_version_0() -> None:
    talk = ExchangeDecoder(LINK)
    talk.client_sends(bytes(encode_request(ApiVersionsRequest(), 4, 1, None)), 1.0)
    refusal = bytes(encode_response(ApiVersionsResponse(error_code=35), 0, 1))
    (done,) = talk.server_sends(refusal, 1.0)
    assert isinstance(done.response, ApiVersionsResponse)
    assert done.response.error_code == 35


def test_sasl_tokens_without_headers_follow_handshake_version_0() -> None:
    frames: list[Frame] = []
    talk = ExchangeDecoder(LINK, on_frame=frames.append)
    talk.client_sends(bytes(encode_request(SaslHandshakeRequest("PLAIN"), 0, 1, None)), 1.0)
    talk.server_sends(bytes(encode_response(SaslHandshakeResponse(0, ["PLAIN"]), 0, 1)), 1.0)
    talk.client_sends(b"\x00\x00\x00\x0d\x00admin\x00secret", 1.0)
    (token,) = talk.server_sends(bytes(4), 1.0)
    assert token.is_token
    assert not token.problem
    talk.client_sends(bytes(encode_request(MetadataRequest(), 12, 2, None)), 1.0)
    (after,) = talk.server_sends(bytes(encode_response(MetadataResponse(), 12, 2)), 1.0)
    assert after.api == "Metadata"
    assert [frame.is_token for frame in frames] == [False, False, True, True, False, False]


def test_response_without_a_request_is_a_problem_unless_joined_late() -> None:
    for is_late in (False, True):
        talk = ExchangeDecoder(LINK, is_joined_late=is_late)
        talk.server_sends(response(1), 1.0)
        problems = [exchange.problem for exchange in talk.end(2.0)]
        assert problems == ([] if is_late else ["a response of 360 bytes without a request"])


def test_unknown_version_is_reported() -> None:
    talk = ExchangeDecoder(LINK)
    unknown = b"\x00\x4e\x00\x09\x00\x00\x00\x05\x00\x02me\x00"
    talk.client_sends(len(unknown).to_bytes(4, "big") + unknown, 1.0)
    (done,) = talk.server_sends(b"\x00\x00\x00\x05\x00\x00\x00\x05\x00", 1.0)
    assert done.problem == "version 9 is unknown to kshare: 1 to 2 are supported"


@pytest.mark.parametrize("has_response", [True, False])
def test_without_response_requests_remain_at_the_end(has_response: bool) -> None:
    talk = ExchangeDecoder(LINK)
    talk.client_sends(request(1), 1.0)
    if has_response:
        talk.server_sends(response(1), 1.0)
    assert len(talk.end(2.0)) == (not has_response)


METADATA_OF_LIBRDKAFKA = bytes.fromhex("0003000d00000005000772646b61666b610000000000010000")
"""librdkafka 2.16's request for all topics: it has a count of four bytes in place of the one byte of a null. Its two
flags and the tags therefore come three bytes too late, after the bytes that are decoded as them."""


def test_surplus_bytes_of_a_request_are_counted() -> None:
    talk = ExchangeDecoder(Connection(1, "client", "broker"))
    frame = METADATA_OF_LIBRDKAFKA
    assert talk.client_sends(len(frame).to_bytes(4, "big") + frame, 1.0) == []
    (done,) = talk.server_sends(bytes(encode_response(MetadataResponse(), 13, 5)), 2.0)
    assert (done.problem, done.request_surplus, done.response_surplus) == ("", 3, 0)
    assert isinstance(done.request, MetadataRequest)
    assert (done.request.topics, done.request.allow_auto_topic_creation) == (None, False)
    assert isinstance(done.response, MetadataResponse)


def test_surplus_bytes_of_a_response_are_counted() -> None:
    talk = ExchangeDecoder(Connection(1, "client", "broker"))
    talk.client_sends(bytes(encode_request(MetadataRequest(topics=None), 13, 5, "me")), 1.0)
    response = bytes(encode_response(MetadataResponse(cluster_id="c"), 13, 5)) + b"more"
    (done,) = talk.server_sends((len(response) - 4).to_bytes(4, "big") + response[4:], 2.0)
    assert (done.problem, done.request_surplus, done.response_surplus) == ("", 0, 4)
    assert isinstance(done.response, MetadataResponse)
    assert done.response.cluster_id == "c"
