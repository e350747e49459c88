"""Requests that create, extend and delete topics, over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from kshare.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kshare.protocol.messages.create_topics_request import CreatableTopic
from kshare.testing import Broker
from tests.broker.raw import Raw


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"one": 1, "two": 1}, auto_create_topics=False) as broker:
        yield broker


def partitions(broker: Broker) -> dict[str, int]:
    def count() -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in broker.state.cluster.topics.items()}

    return broker.call(count)


@pytest.mark.parametrize("counts", [{"one": 2**31 - 1}, {"one": 5002, "two": 5002}])
@pytest.mark.parametrize("validate_only", [False, True])
def test_one_request_adds_at_most_10000_partitions(
    broker: Broker, counts: dict[str, int], validate_only: bool
) -> None:
    topics = [CreatePartitionsTopic(name, count, None) for name, count in counts.items()]
    with Raw(broker) as raw:
        response = raw.ask(CreatePartitionsRequest(topics, 1000, validate_only), 3)
    assert {each.name: each.error_code for each in response.results} == dict.fromkeys(
        counts, ErrorCode.POLICY_VIOLATION
    )
    assert partitions(broker) == {"one": 1, "two": 1}


def test_topic_that_is_extended_twice_in_one_request_is_refused(broker: Broker) -> None:
    topics = [
        CreatePartitionsTopic(name, count, None) for name, count in (("one", 2), ("one", 3), ("two", 2))
    ]
    with Raw(broker) as raw:
        response = raw.ask(CreatePartitionsRequest(topics, 1000, False), 3)
    assert [(each.name, each.error_code) for each in response.results] == [
        ("one", ErrorCode.INVALID_REQUEST),
        ("two", ErrorCode.NONE),
    ]
    assert partitions(broker) == {"one": 1, "two": 2}


def test_one_request_creates_at_most_10000_partitions(broker: Broker) -> None:
    topics = [CreatableTopic(name, 4000, 1) for name in "abc"]
    with Raw(broker) as raw:
        response = raw.ask(CreateTopicsRequest(topics, 1000, validate_only=True), 7)
    assert {each.name: each.error_code for each in response.topics} == dict.fromkeys(
        "abc", ErrorCode.POLICY_VIOLATION
    )


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_topics_are_not_deleted_if_a_setting_says_so(version: int, code: ErrorCode) -> None:
    with Broker(topics={"one": 1}, settings={"delete.topic.enable": "false"}) as broker, Raw(broker) as raw:
        response = raw.ask(DeleteTopicsRequest(topic_names=["one"]), version)
        assert [(each.name, each.error_code) for each in response.responses] == [("one", code)]
        assert partitions(broker) == {"one": 1}


def test_topic_that_is_deleted_twice_in_one_request_is_refused(broker: Broker) -> None:
    with Raw(broker) as raw:
        response = raw.ask(DeleteTopicsRequest(topic_names=["one", "two", "one"]), 5)
    assert [(each.name, each.error_code) for each in response.responses] == [
        ("one", ErrorCode.INVALID_REQUEST),
        ("two", ErrorCode.NONE),
    ]
    assert partitions(broker) == {"one": 1}
