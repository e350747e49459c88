"""What the cluster refuses: pages remain, and say in a sentence what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kshare import sync
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.message import Request
from kshare.protocol.messages import (
    DescribeConfigsRequest,
    DescribeShareGroupOffsetsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ShareGroupDescribeRequest,
)
from kshare.testing import Broker
from tests.helpers.consoles import RunningConsole, StartConsole, submit
from tests.helpers.packers import GROUP, showing_packers, with_packers

OF_CLUSTER = ("/", f"/group?name={GROUP}", f"/group/offsets?name={GROUP}", "/dead-letters", "/workers")
OF_TOPIC = ("/records/topic?topic=orders", "/dead-letters/topic?topic=orders")
_GROUP_TYPE = 32


@pytest.fixture
def broker(kshare_broker: Broker) -> Broker:
    return with_packers(kshare_broker)


@pytest.fixture
def console(start: StartConsole) -> RunningConsole:
    return showing_packers(start, allow_changes=True)


def refusing(error: ErrorCode) -> Callable[[Any], None]:
    """Sets the error in all rows of a response."""

    def rows(response: Any) -> list[Any]:
        for name in ("groups", "coordinators", "results"):
            if hasattr(response, name):
                return [value for value in getattr(response, name) if _is_of_group(value)]
        topics = getattr(response, "topics", None) or getattr(response, "responses", [])
        return [
            row for topic in topics for row in ([topic] if hasattr(topic, "error_code") else topic.partitions)
        ]

    def change(response: Any) -> None:
        for row in rows(response):
            row.error_code = error

    return change


def _is_of_group(row: Any) -> bool:
    return getattr(row, "resource_type", _GROUP_TYPE) == _GROUP_TYPE


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("request_type", "error", "pages"),
    [
        (ShareGroupDescribeRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, ()),
        (ShareGroupDescribeRequest, ErrorCode.NOT_COORDINATOR, ()),
        (ShareGroupDescribeRequest, ErrorCode.GROUP_ID_NOT_FOUND, ()),
        (FindCoordinatorRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, ()),
        (DescribeShareGroupOffsetsRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, ()),
        (
            DescribeConfigsRequest,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            (f"/group/settings?name={GROUP}",),
        ),
        (MetadataRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED, OF_TOPIC),
        (ListOffsetsRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED, OF_TOPIC),
        (FetchRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED, OF_TOPIC),
    ],
)
def test_pages_without_a_right(
    broker: Broker,
    console: RunningConsole,
    request_type: type[Request[Any]],
    error: ErrorCode,
    pages: tuple[str, ...],
) -> None:
    """Pages about the cluster show what is left of it; those about one thing say which right is needed."""
    broker.faults.add(request_type, times=None, change=refusing(error))
    time.sleep(0.5)  # for another reading
    for path in OF_CLUSTER:
        assert console.request(path)[0] == 200, path
    for path in pages:
        status, _, text = console.request(path)
        assert status == 502
        assert error.name in text
        assert "grant it: kafka-acls.sh" in text


def reset(console: RunningConsole) -> tuple[int, str]:
    form = {"name": GROUP, "topic": "", "to": "earliest", "confirm": "1"}
    status, _, text = submit(console, f"/group/offsets?name={GROUP}", "/group/offsets", form)
    return status, text


@pytest.mark.lengthy
def test_a_group_that_was_deleted_since_the_last_reading(broker: Broker, console: RunningConsole) -> None:
    broker.faults.add(
        DescribeShareGroupOffsetsRequest, times=None, change=refusing(ErrorCode.GROUP_ID_NOT_FOUND)
    )
    status, text = reset(console)
    assert (status, f"group {GROUP}: GROUP_ID_NOT_FOUND" in text) == (404, True)


@pytest.mark.lengthy
def test_a_group_whose_offsets_are_in_use(broker: Broker, console: RunningConsole) -> None:
    with sync.ShareConsumer(broker.bootstrap, group=GROUP, topics=["orders"]) as consumer:
        broker.produce("orders", [b"1"])
        next(iter(consumer))
        status, text = reset(console)
    assert (status, "NON_EMPTY_GROUP" in text) == (409, True)
