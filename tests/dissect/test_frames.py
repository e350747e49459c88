"""Whole frames: sizes, headers of all kinds, and frames with wrong sizes or surplus bytes."""

from __future__ import annotations

import struct

import pytest

from kshare.dissect import Dissection, dissect_request, dissect_response, dissect_versioned, dissection_json
from kshare.dissect.fields import index
from kshare.dissect.table import message
from kshare.protocol import by_name
from tests.dissect.tiling import assert_tiled, found

_BOTH = pytest.mark.parametrize("api_key", sorted(index.REQUESTS))


def _framed(content: bytes, size: int | None = None) -> bytes:
    return struct.pack(">i", len(content) if size is None else size) + content


def _request_header(api_key: int, version: int, tags: bytes) -> bytes:
    return struct.pack(">hhih", api_key, version, 99, 3) + b"cli" + tags


def _request(data: bytes, *, is_sized: bool = True) -> Dissection:
    dissection = dissect_request(data, is_sized=is_sized)
    assert_tiled(dissection, data)
    return dissection


def _response(data: bytes, api_key: int, version: int) -> Dissection:
    dissection = dissect_response(data, api_key, version)
    assert_tiled(dissection, data)
    return dissection


@_BOTH
def test_every_api_request_in_every_version(api_key: int) -> None:
    name = index.REQUESTS[api_key]
    first, last = message(name).versions
    for version in range(first, last + 1):
        value = by_name.from_json(name, version, {})
        tags = b"\x00" if message(name).is_flexible(version) else b""
        content = _request_header(api_key, version, tags) + value.encode(version)
        for is_sized in (True, False):
            dissection = _request(_framed(content) if is_sized else content, is_sized=is_sized)
            assert dissection.problems == []
            assert (dissection.message, dissection.version) == (name, version)
            assert dissection_json(dissection) == by_name.to_json(value, version)
            assert found(dissection, "header.clientId").value == "cli"
            assert found(dissection, "header.requestApiKey").note == name.removesuffix("Request")


@_BOTH
def test_every_api_response_in_every_version(api_key: int) -> None:
    name = index.RESPONSES[api_key]
    first, last = message(name).versions
    for version in range(first, last + 1):
        value = by_name.from_json(name, version, {})
        has_tags = message(name).is_flexible(version) and name != "ApiVersionsResponse"
        data = _framed(struct.pack(">i", 99) + b"\x00" * has_tags + value.encode(version))
        dissection = _response(data, api_key, version)
        assert dissection.problems == []
        assert dissection_json(dissection) == by_name.to_json(value, version)
        assert found(dissection, "header.correlationId").value == 99


def test_version_0_response_to_an_unknown_version_of_api_versions() -> None:
    response = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 3}]}
    data = _framed(struct.pack(">i", 1) + by_name.from_json("ApiVersionsResponse", 0, response).encode(0))
    dissection = _response(data, 18, 4)
    assert dissection.problems == []
    assert dissection.version == 0
    assert dissection_json(dissection) == response
    assert found(dissection, "errorCode").note == "UNSUPPORTED_VERSION"


def test_unknown_header_tags() -> None:
    body = by_name.from_json("ShareFetchRequest", 2, {}).encode(2)
    dissection = _request(_framed(_request_header(78, 2, b"\x01\x09\x02ab") + body))
    assert dissection.problems == []
    assert bytes(found(dissection, "header.tags[0].content").raw) == b"ab"


@pytest.mark.parametrize(
    ("api_key", "version", "reason"),
    [
        (78, 9, "ShareFetchRequest has no version 9: 1 to 2 are known"),
        (78, -1, "ShareFetchRequest has no version -1: 1 to 2 are known"),
        (88, 0, "API 88 (StreamsGroupHeartbeat) has no schema here"),
        (5000, 0, "there is no API 5000"),
    ],
)
def test_requests_without_a_schema_show_their_header(api_key: int, version: int, reason: str) -> None:
    dissection = _request(_framed(_request_header(api_key, version, b"\x00") + b"body"))
    assert dissection.error is not None
    assert dissection.error.reason == reason
    assert dissection.error.offset == found(dissection, dissection.error.path).offset
    assert found(dissection, "header.correlationId").value == 99
    assert dissection.spans[-1].kind == "unread"
    assert dissection_json(dissection) == {}


def test_frame_truncated_at_every_byte() -> None:
    form = {"groupId": "g", "memberId": "m", "topics": [{"topicId": "A" * 22, "partitions": [{}, {}]}]}
    body = by_name.from_json("ShareFetchRequest", 2, form).encode(2)
    data = _framed(_request_header(78, 2, b"\x00") + body)
    whole = _request(data)
    assert whole.problems == []
    for length in range(len(data)):
        cut = _request(data[:length])
        assert cut.error is not None
        if length >= 4:
            assert f"the frame's size is {len(data) - 4} bytes, {length - 4} arrived" in cut.error.reason
        known = {(span.path, span.offset, span.length) for span in whole.spans}
        shown = [span for span in cut.spans if span.kind != "unread"]
        assert all((span.path, span.offset, span.length) in known for span in shown)


def _heartbeat() -> bytes:
    return _request_header(76, 1, b"\x00") + by_name.from_json("ShareGroupHeartbeatRequest", 1, {}).encode(1)


def test_size_larger_than_the_frame() -> None:
    dissection = _request(_framed(_heartbeat(), size=1000))
    assert dissection.error is not None
    assert dissection.error.path == "size"
    assert dissection.body is not None
    assert dissection_json(dissection)["memberEpoch"] == 0


def test_size_smaller_than_the_frame() -> None:
    data = _framed(_heartbeat()) + b"next"
    dissection = _request(data)
    assert dissection.error is not None
    assert (dissection.error.offset, dissection.error.reason) == (len(data) - 4, "4 bytes after the end")


def test_negative_size() -> None:
    dissection = _request(_framed(_heartbeat(), size=-2))
    assert str(dissection.error) == "size at byte 0: a size of -2"


def test_coordinator_records() -> None:
    key = by_name.from_json(
        "ShareSnapshotKey", 0, {"groupId": "g", "topicId": "A" * 22, "partition": 3}
    ).encode(0)
    dissection = dissect_versioned("ShareSnapshotKey", b"\x00\x00" + key)
    assert_tiled(dissection, b"\x00\x00" + key)
    assert dissection.problems == []
    assert dissection_json(dissection) == {"groupId": "g", "topicId": "A" * 22, "partition": 3}
    error = dissect_versioned("ShareSnapshotKey", b"\x00\x01" + key).error
    assert str(error) == "type at byte 0: record type 1: ShareSnapshotKey has 0"


def test_coordinator_values_state_their_version() -> None:
    value = by_name.from_json("ShareSnapshotValue", 0, {"stateBatches": [{"deliveryState": 2}]}).encode(0)
    dissection = dissect_versioned("ShareSnapshotValue", b"\x00\x00" + value)
    assert dissection.problems == []
    assert found(dissection, "stateBatches[0].deliveryState").note == "acknowledged"
    error = dissect_versioned("ShareSnapshotValue", b"\x00\x63" + value).error
    assert error is not None
    assert error.reason == "ShareSnapshotValue has no version 99: 0 to 0 are known"


def test_unknown_names_raise_key_error() -> None:
    with pytest.raises(KeyError):
        dissect_versioned("NoSuchKey", b"")
    with pytest.raises(KeyError):
        dissect_response(b"", 5000, 0)
