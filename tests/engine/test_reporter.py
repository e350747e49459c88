"""Which events are reported to observers and outcome callbacks, and that a failing observer does no harm."""

from __future__ import annotations

import logging

import pytest

from kshare.engine.events import (
    Acknowledged,
    Acquired,
    Event,
    Fetched,
    Refused,
    Responded,
    SessionEnded,
)
from kshare.engine.reporter import Reporter
from kshare.errors import BrokerError, ConnectionLost
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse
from kshare.protocol.messages import share_acknowledge_response as acknowledged
from kshare.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
)
from kshare.state.session import AckRange

T = b"t" * 16


def name_of(topic_id: bytes) -> str | None:
    return "orders" if topic_id == T else None


def test_fetch_is_reported_by_lease_and_in_total() -> None:
    seen: list[Event] = []
    data = PartitionData(
        2,
        acknowledge_error_code=ErrorCode.INVALID_RECORD_STATE,
        records=b"x" * 70,
        acquired_records=[AcquiredRecords(0, 9, 1), AcquiredRecords(20, 20, 3)],
    )
    other = PartitionData(0, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    response = ShareFetchResponse(
        responses=[
            ShareFetchableTopicResponse(T, [data]),
            ShareFetchableTopicResponse(b"u" * 16, [other]),
        ]
    )
    Reporter(seen.append).fetched(7, response, name_of)
    assert seen == [
        Refused("ShareFetch", "orders", 2, "INVALID_RECORD_STATE"),
        Acquired("orders", 2, 10, 1),
        Acquired("orders", 2, 1, 3),
        Refused("ShareFetch", (b"u" * 16).hex(), 0, "UNKNOWN_TOPIC_ID"),
        Fetched(7, 11, 70),
    ]


def test_empty_fetch_is_not_reported() -> None:
    seen: list[Event] = []
    Reporter(seen.append).fetched(7, ShareFetchResponse(), name_of)
    assert seen == []


def test_refused_acknowledgements_are_reported_by_partition() -> None:
    seen: list[Event] = []
    rows = [
        acknowledged.PartitionData(0, 0),
        acknowledged.PartitionData(1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]
    response = ShareAcknowledgeResponse(responses=[acknowledged.ShareAcknowledgeTopicResponse(T, rows)])
    Reporter(seen.append).acknowledged(response, name_of)
    assert seen == [Refused("ShareAcknowledge", "orders", 1, "NOT_LEADER_OR_FOLLOWER")]


def test_responded_requests_are_reported_with_their_error() -> None:
    seen: list[Event] = []
    reporter = Reporter(seen.append)
    reporter.responded(ShareFetchRequest(), 1, 0.5, ShareFetchResponse())
    reporter.responded(
        ShareFetchRequest(), 1, 0.5, ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND)
    )
    reporter.responded(ShareFetchRequest(), 1, 0.5, ConnectionLost("gone"))
    assert [event.error for event in seen if isinstance(event, Responded)] == [
        None,
        "SHARE_SESSION_NOT_FOUND",
        "ConnectionLost",
    ]


def test_outcome_callback_gets_only_outcomes() -> None:
    seen: list[Acknowledged] = []
    reporter = Reporter(on_settled=seen.append)
    assert (reporter.is_on, reporter.wants_outcomes) == (False, True)
    outcome = Acknowledged("orders", 0, (AckRange(0, 0, b"\x01"),), BrokerError(6, "x"), False)
    reporter.report(SessionEnded(1, "ConnectionLost"))
    reporter.report(outcome)
    assert seen == [outcome]


def test_exception_of_an_observer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Acknowledged] = []

    def broken(event: Event) -> None:
        raise RuntimeError("mine")

    outcome = Acknowledged("orders", 0, (), None, False)
    with caplog.at_level(logging.ERROR, "kshare"):
        Reporter(broken, seen.append).report(outcome)
        Reporter(None, broken).report(outcome)
    assert seen == [outcome]
    assert caplog.messages[1:] == ["on_settled raised at Acknowledged, which has no effect"]
    assert caplog.messages[:1] == ["the observer raised at Acknowledged, which has no effect"]


def test_reporter_without_listeners_is_off() -> None:
    reporter = Reporter()
    assert (reporter.is_on, reporter.wants_outcomes) == (False, False)
    reporter.report(SessionEnded(1, "x"))
