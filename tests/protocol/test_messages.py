"""Every message in every version survives a round trip as bytes and as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kshare.dissect import dissect_message, dissection_json
from kshare.errors import DecodeError, EncodeError
from kshare.protocol import by_name, messages
from kshare.protocol.message import Message, Request
from kshare.protocol.messages import (
    FetchRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatResponse,
)
from kshare.protocol.messages.share_fetch_request import FetchTopic
from kshare.protocol.messages.share_fetch_response import PartitionData, ShareFetchableTopicResponse
from tests.helpers.strategies import every_message, messages_of, shapes

few = settings(max_examples=8, suppress_health_check=list(HealthCheck), database=None)
fewer = settings(few, max_examples=2)


@pytest.mark.lengthy
@every_message
def test_round_trip_as_bytes_and_json(name: str) -> None:
    for versions in shapes(name):
        _travel(name, versions[0])


def _travel(name: str, version: int) -> None:
    @few
    @given(messages_of(name, version))
    def check(message: Message) -> None:
        data = message.encode(version)
        back = by_name.decode(name, version, data)
        assert back == message
        assert back.encode(version) == data
        form = by_name.to_json(message, version)
        assert by_name.from_json(name, version, json.loads(json.dumps(form))) == message

    check()


@every_message
def test_versions_with_the_same_fields_have_the_same_bytes(name: str) -> None:
    """So what other tests show for the first of them holds for all."""
    for versions in shapes(name):
        _encode_alike(name, versions)


def _encode_alike(name: str, versions: range) -> None:
    @fewer
    @given(messages_of(name, versions[0]))
    def check(message: Message) -> None:
        data = message.encode(versions[0])
        form = by_name.to_json(message, versions[0])
        for version in versions[1:]:
            assert message.encode(version) == data
            assert by_name.decode(name, version, data) == message
            assert by_name.to_json(message, version) == form
            assert dissection_json(dissect_message(name, version, data, records=False)) == form

    check()


@pytest.mark.parametrize("name", sorted(messages.REQUESTS.values()))
def test_requests_name_their_responses(name: str) -> None:
    request = by_name.message_class(name)
    assert issubclass(request, Request)
    assert request.RESPONSE.NAME == name.removesuffix("Request") + "Response"
    assert request.RESPONSE.API_KEY == request.API_KEY
    assert request.RESPONSE.VERSIONS == request.VERSIONS


def test_field_that_the_version_does_not_have_is_refused() -> None:
    with pytest.raises(EncodeError, match=r"isRenewAck: version 1 can't carry it \(versions 2 to 2 can\)"):
        ShareFetchRequest(is_renew_ack=True).encode(1)


def test_ignorable_field_is_omitted_if_the_version_does_not_have_it() -> None:
    with_mode = ShareFetchRequest(group_id="g", share_acquire_mode=1)
    assert with_mode.encode(1) == ShareFetchRequest(group_id="g").encode(1)
    assert with_mode.encode(2) != ShareFetchRequest(group_id="g").encode(2)


def test_null_that_the_version_does_not_allow_is_refused() -> None:
    assert MetadataRequest(topics=None).encode(1)
    with pytest.raises(EncodeError, match="topics: may not be null in version 0"):
        MetadataRequest(topics=None).encode(0)


@pytest.mark.parametrize("version", [1, 2])
def test_null_records_are_decoded_as_empty_and_never_encoded(version: int) -> None:
    """Kafka's schema forbids null records, but kfake sends them for partitions without data."""
    partition = PartitionData(3, acquired_records=[])
    response = ShareFetchResponse(responses=[ShareFetchableTopicResponse(b"t" * 16, [partition])])
    data = bytearray(response.encode(version))
    assert data[-6:] == b"\x01\x01\x00\x00\x01\x00", "records, acquired, tags, tags, endpoints, tags"
    data[-6] = 0
    read = ShareFetchResponse.decode(bytes(data), version)
    assert read == response
    assert bytes(read.responses[0].partitions[0].records) == b""
    partition.records = None  # type: ignore[assignment]
    with pytest.raises(EncodeError, match="records"):
        response.encode(version)


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (ShareFetchRequest(max_bytes=2**31), "maxBytes"),
        (ShareFetchRequest(group_id="x" * 40000), "groupId"),
        (ShareFetchRequest(group_id="\ud800"), "groupId"),
        (ShareFetchRequest(group_id=7), "groupId"),  # type: ignore[arg-type]
        (ShareFetchRequest(topics=[FetchTopic(topic_id=b"short")]), r"topics\[0\].topicId"),
        (ShareFetchRequest(topics=7), "topics"),  # type: ignore[arg-type]
        (ShareFetchRequest(unknown_tags=b"\x01"), "unknown_tags"),
        (FetchRequest(unknown_tags=b"\x01\x00\x00"), "unknown_tags"),
    ],
)
def test_invalid_value_is_refused_with_its_path(message: Message, path: str) -> None:
    version = message.VERSIONS[1]
    with pytest.raises(EncodeError, match=f"^{path}: "):
        message.encode(version)


def test_failed_encoding_leaves_the_buffer_unchanged() -> None:
    out = bytearray(b"before")
    with pytest.raises(EncodeError):
        ShareFetchRequest(group_id="g", max_bytes=2**31).append_to(out, 1)
    assert out == b"before"


@pytest.mark.parametrize("version", [0, 3, -1])
def test_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(EncodeError, match=f"ShareFetchRequest has no version {version}: it has 1 to 2"):
        ShareFetchRequest().encode(version)
    with pytest.raises(DecodeError, match=f"ShareFetchRequest has no version {version}: it has 1 to 2"):
        ShareFetchRequest.decode(b"", version)


def test_unknown_tagged_fields_survive() -> None:
    plain = ShareFetchResponse().encode(1)
    assert plain[-1] == 0
    tagged = plain[:-1] + b"\x02\x05\x01a\x09\x00"
    message = ShareFetchResponse.decode(tagged, 1)
    assert message.unknown_tags == b"\x02\x05\x01a\x09\x00"
    assert message.encode(1) == tagged


def test_unknown_tagged_fields_survive_beside_known_ones() -> None:
    message = FetchRequest(cluster_id="c", unknown_tags=b"\x01\x07\x02ab")
    data = message.encode(17)
    assert data.endswith(b"\x02\x00\x02\x02c\x07\x02ab")
    assert FetchRequest.decode(data, 17) == message


def test_unknown_tagged_fields_survive_in_a_row() -> None:
    types = ShareAcknowledgeRequest.__module__
    batch_class = getattr(__import__(types, fromlist=["x"]), "AcknowledgementBatch")  # noqa: B009
    batches = [
        batch_class(1, 2, b"\x01"),
        batch_class(3, 4, b"\x01", b"\x01\x09\x01!"),
        batch_class(5, 6, b"\x01\x02"),
    ]
    out = bytearray()
    batch_class.encode_rows(out, batches, True, 1)
    back, end = batch_class.decode_rows(bytes(out), 0, True, 1)
    assert back == batches
    assert end == len(out)


def test_repr_has_no_credentials() -> None:
    assert "hunter2" not in repr(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"))


def test_records_are_views_of_the_decoded_buffer() -> None:
    from kshare.protocol.messages.share_fetch_response import PartitionData, ShareFetchableTopicResponse

    partition = PartitionData(records=b"record bytes")
    data = ShareFetchResponse(responses=[ShareFetchableTopicResponse(partitions=[partition])]).encode(1)
    records = ShareFetchResponse.decode(data, 1).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data
    assert bytes(records) == b"record bytes"


@given(st.sampled_from([bytes, bytearray, memoryview]))
def test_any_buffer_can_be_decoded(kind: type) -> None:
    data = ShareGroupHeartbeatResponse(member_id="m", member_epoch=3).encode(1)
    assert ShareGroupHeartbeatResponse.decode(kind(data), 1).member_id == "m"


def test_map_keys_distinguish_elements() -> None:
    topics = [FetchTopic(topic_id=bytes([n]) * 16) for n in range(3)]
    assert {topic.map_key: topic for topic in topics}[b"\x01" * 16] is topics[1]
