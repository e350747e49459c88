"""Encoding and decoding by message name, and the JSON form."""

from __future__ import annotations

from typing import Any

import pytest

from kshare.errors import EncodeError
from kshare.protocol import by_name, messages
from kshare.protocol.by_name import UnknownMessageError
from kshare.protocol.error_codes import ErrorCode, error_name
from kshare.protocol.messages import FetchRequest, ShareAcknowledgeRequest, ShareGroupHeartbeatRequest

ACKNOWLEDGE: dict[str, Any] = {
    "groupId": "orders",
    "memberId": "m",
    "shareSessionEpoch": 3,
    "isRenewAck": False,
    "topics": [
        {
            "topicId": "AAECAwQFBgcICQoLDA0ODw",
            "partitions": [
                {
                    "partitionIndex": 0,
                    "acknowledgementBatches": [
                        {"firstOffset": 1, "lastOffset": 9, "acknowledgeTypes": [1, -1]}
                    ],
                }
            ],
        }
    ],
}


def test_json_has_the_form_of_kafkas_converters() -> None:
    message = by_name.from_json("ShareAcknowledgeRequest", 2, ACKNOWLEDGE)
    assert isinstance(message, ShareAcknowledgeRequest)
    assert message.topics[0].topic_id == bytes(range(16))
    assert message.topics[0].partitions[0].acknowledgement_batches[0].acknowledge_types == b"\x01\xff"
    assert by_name.to_json(message, 2) == ACKNOWLEDGE
    assert by_name.decode("ShareAcknowledgeRequest", 2, by_name.encode(message, 2)) == message


def test_json_has_only_the_fields_of_the_version() -> None:
    message = by_name.from_json("ShareAcknowledgeRequest", 2, ACKNOWLEDGE)
    assert "isRenewAck" not in by_name.to_json(message, 1)


def test_tagged_fields_with_defaults_are_omitted() -> None:
    assert "clusterId" not in by_name.to_json(FetchRequest(), 17)
    assert by_name.to_json(FetchRequest(cluster_id="c"), 17)["clusterId"] == "c"


def test_missing_fields_get_their_defaults() -> None:
    assert by_name.from_json("ShareGroupHeartbeatRequest", 1, {"groupId": "g"}) == ShareGroupHeartbeatRequest(
        "g"
    )


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"gruppe": "g"}, "gruppe: ShareAcknowledgeRequest has no such field"),
        ({"memberID": "g"}, "memberID: ShareAcknowledgeRequest has no such field; did you mean memberId"),
        ({"isRenewAck": True}, "isRenewAck: version 1 can't carry it"),
        ({"shareSessionEpoch": "3"}, r"shareSessionEpoch: '3' \(str\) is not of type int32"),
        ({"shareSessionEpoch": 2**31}, "shareSessionEpoch: 2147483648 is outside int32"),
        ({"topics": {}}, "topics: must be a list, not dict"),
        ({"topics": [7]}, r"topics\[0\]: must be an object, not int"),
        ({"topics": None}, "topics: may not be null in version 1"),
        ({"topics": [{"topicId": "short"}]}, r"topics\[0\].topicId: "),
        ({"topics": [{"topicId": 7}]}, r"topics\[0\].topicId: 7 \(int\) is not bytes"),
        ([], "ShareAcknowledgeRequest: must be an object, not list"),
    ],
)
def test_invalid_json_is_refused_with_its_path(form: Any, message: str) -> None:
    with pytest.raises(EncodeError, match=f"^{message}"):
        by_name.from_json("ShareAcknowledgeRequest", 1, form)


def test_values_that_the_version_cannot_contain_are_refused() -> None:
    message = ShareAcknowledgeRequest(is_renew_ack=True)
    with pytest.raises(EncodeError, match="isRenewAck: version 1 can't carry it"):
        by_name.to_json(message, 1)
    with pytest.raises(EncodeError, match="has no version 9"):
        by_name.to_json(message, 9)
    with pytest.raises(EncodeError, match="has no version 9"):
        by_name.from_json("ShareAcknowledgeRequest", 9, {})


def test_unknown_message_suggests_the_most_similar() -> None:
    with pytest.raises(
        UnknownMessageError, match="no message is called 'ShareFetchReqest'; did you mean ShareFetchRequest"
    ):
        by_name.message_class("ShareFetchReqest")
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = messages.Nope


def test_error_codes_have_names_and_are_retriable_or_not() -> None:
    assert error_name(122) == "SHARE_SESSION_NOT_FOUND"
    assert error_name(4711) == "UNKNOWN_CODE_4711"
    assert ErrorCode.NOT_COORDINATOR.is_retriable
    assert not ErrorCode.INVALID_RECORD_STATE.is_retriable
