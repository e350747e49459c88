"""Metadata that clients ask for by topic id, over the wire."""

from __future__ import annotations

import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import MetadataRequest
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.testing import Broker
from tests.broker.raw import Raw


@pytest.mark.parametrize(
    ("version", "name", "expected"),
    [
        (10, None, [("", ErrorCode.INVALID_REQUEST), ("t", ErrorCode.INVALID_REQUEST)]),
        (11, "t", [("t", ErrorCode.INVALID_REQUEST), ("t", ErrorCode.INVALID_REQUEST)]),
        (12, None, [(None, ErrorCode.UNKNOWN_TOPIC_ID), ("t", ErrorCode.NONE)]),
    ],
)
def test_topics_are_found_by_id_since_version_12(
    version: int, name: str | None, expected: list[tuple[str | None, ErrorCode]]
) -> None:
    topics = [MetadataRequestTopic(b"x" * 16, name), MetadataRequestTopic(bytes(16), "t")]
    request = MetadataRequest(topics, include_topic_authorized_operations=True)
    with Broker(topics={"t": 1}) as broker, Raw(broker) as raw:
        response = raw.ask(request, version)
    assert [(each.name, each.error_code) for each in response.topics] == expected
