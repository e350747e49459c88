"""What is logged of a session whose fetches are refused."""

from __future__ import annotations

import pytest

from kshare.client.config import ConsumerConfig
from kshare.engine.reporter import Reporter
from kshare.engine.session_failures import SessionFailures
from kshare.protocol.error_codes import ErrorCode
from kshare.state.session import SessionResponse

TOPIC_ID = bytes(15) + b"t"
NAMES = {TOPIC_ID: "orders"}


def refused(partitions: int) -> SessionResponse:
    return SessionResponse(
        failed={(TOPIC_ID, number): ErrorCode.KAFKA_STORAGE_ERROR for number in range(partitions)}
    )


@pytest.fixture
def failures() -> SessionFailures:
    settings = ConsumerConfig.make("localhost:9092", {"group": "g", "topics": ["orders"]}).member_settings()
    return SessionFailures(7, settings, NAMES.get, Reporter(group="g", clock=lambda: 0.0))


def test_partitions_that_are_refused_for_long_are_named_in_one_line(
    failures: SessionFailures, caplog: pytest.LogCaptureFixture
) -> None:
    """A partition whose disk had failed was unread for ever, without a word."""
    for second in range(60):
        failures.on_response(refused(3), float(second))
        if second == 5:
            assert not caplog.records
    assert [record.getMessage() for record in caplog.records] == [
        "group g: node 7 refuses fetches; retrying: orders[0] (KAFKA_STORAGE_ERROR) and 2 other partitions"
    ]


def test_refusals_that_end_soon_are_not_logged(
    failures: SessionFailures, caplog: pytest.LogCaptureFixture
) -> None:
    """As while leaders move."""
    for second in range(60):
        failures.on_response(refused(1 if second % 5 else 0), float(second))
    assert not caplog.records
