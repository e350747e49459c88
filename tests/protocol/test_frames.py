"""Splitting a byte stream into frames, and request and response headers."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshare.errors import DecodeError
from kshare.protocol.envelopes import decode_request, decode_response, encode_request, encode_response
from kshare.protocol.frames import FrameSplitter
from kshare.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    SaslHandshakeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kshare.protocol.messages.share_fetch_response import PartitionData, ShareFetchableTopicResponse
from tests.helpers.framing import framed


@given(st.lists(st.binary(max_size=40), max_size=5), st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_frames_are_split_however_the_stream_is_chunked(bodies: list[bytes], cuts: list[int]) -> None:
    stream, splitter, out, at = framed(*bodies), FrameSplitter(), [], 0
    for size in cuts:
        out += [bytes(frame) for frame in splitter.feed(stream[at : at + size])]
        at += size
    out += [bytes(frame) for frame in splitter.feed(stream[at:])]
    assert out == bodies
    assert splitter.is_between_frames


def test_frames_arriving_one_byte_at_a_time() -> None:
    splitter = FrameSplitter()
    out = [bytes(frame) for byte in framed(b"one", b"", b"two") for frame in splitter.feed(bytes([byte]))]
    assert out == [b"one", b"", b"two"]


@pytest.mark.parametrize("cut", range(1, 7))
def test_incomplete_frame_is_noticed(cut: int) -> None:
    splitter = FrameSplitter()
    assert list(splitter.feed(framed(b"abc")[:cut])) == []
    assert not splitter.is_between_frames


def test_frame_in_one_chunk_is_not_copied() -> None:
    stream = framed(b"abc")
    (frame,) = FrameSplitter().feed(stream)
    assert frame.obj is stream


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x04\x01"])
def test_size_above_the_limit_is_refused_at_once(size: bytes) -> None:
    splitter = FrameSplitter(limit=1024)
    assert [bytes(frame) for frame in splitter.feed(framed(b"x"))] == [b"x"]
    with pytest.raises(DecodeError, match=r"size at byte 5: a frame of .* announced, 1024 are allowed"):
        list(splitter.feed(size))


def test_announced_size_allocates_no_memory() -> None:
    splitter = FrameSplitter()
    tracemalloc.start()
    try:
        assert list(splitter.feed((200 * 1024 * 1024).to_bytes(4, "big") + b"abc")) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000


@pytest.mark.parametrize(
    ("request_", "version", "header"),
    [
        (ShareFetchRequest(group_id="g"), 1, b"\x00\x4e\x00\x01\x00\x00\x00\x07\x00\x02me\x00"),
        (FetchRequest(), 11, b"\x00\x01\x00\x0b\x00\x00\x00\x07\x00\x02me"),
        (ApiVersionsRequest("k", "1"), 3, b"\x00\x12\x00\x03\x00\x00\x00\x07\x00\x02me\x00"),
        (SaslHandshakeRequest("PLAIN"), 1, b"\x00\x11\x00\x01\x00\x00\x00\x07\x00\x02me"),
    ],
)
def test_request_has_the_header_of_its_version(
    request_: ShareFetchRequest, version: int, header: bytes
) -> None:
    frame = encode_request(request_, version, 7, "me")
    assert frame[:4] == (len(frame) - 4).to_bytes(4, "big")
    assert frame[4:] == header + request_.encode(version)
    head, message = decode_request(frame[4:])
    assert (head.request_api_key, head.request_api_version) == (request_.API_KEY, version)
    assert (head.correlation_id, head.client_id) == (7, "me")
    assert message == request_


def test_decoded_records_are_not_copied() -> None:
    response = ShareFetchResponse(
        responses=[ShareFetchableTopicResponse(partitions=[PartitionData(records=b"records")])]
    )
    frame = bytes(encode_response(response, 1, 9))
    assert frame[4:9] == b"\x00\x00\x00\x09\x00"
    correlation_id, back = decode_response(ShareFetchResponse, 1, memoryview(frame)[4:])
    assert correlation_id == 9
    assert back == response
    records = back.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_api_versions_response_has_the_oldest_header() -> None:
    frame = encode_response(ApiVersionsResponse(), 3, 9)
    assert frame[4:] == b"\x00\x00\x00\x09" + ApiVersionsResponse().encode(3)
    assert decode_response(ApiVersionsResponse, 3, frame[4:]) == (9, ApiVersionsResponse())


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"", "header at byte 0: a request of 0 bytes has no room for its header"),
        (
            b"\x03\xe7\x00\x00" + bytes(8),
            "header.requestApiKey at byte 0: kshare knows no request with API key 999",
        ),
        (
            b"\x00\x4e\x00\x63" + bytes(8),
            "header.requestApiVersion at byte 2: ShareFetchRequest has no version 99",
        ),
        (b"\x00\x4e\x00\x01\x00\x00", "correlationId at byte 4: 4 bytes needed, 2 are left"),
    ],
)
def test_invalid_request_says_why(frame: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=f"^{message}"):
        decode_request(frame)


def test_bytes_after_a_message_are_refused() -> None:
    frame = encode_request(ShareFetchRequest(), 1, 7, None)
    with pytest.raises(DecodeError, match="1 bytes are left over after the message"):
        decode_request(frame[4:] + b"!")
