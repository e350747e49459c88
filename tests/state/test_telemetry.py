"""When telemetry is asked for and pushed, and what follows from each error."""

from __future__ import annotations

from typing import Any

import pytest

from kshare.protocol.compression import Compression, decompress
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import GetTelemetrySubscriptionsResponse, PushTelemetryResponse
from kshare.state.telemetry import DEFAULT_INTERVAL_S, Telemetry, TelemetryState

ID = b"i" * 16
NOW = 100.0
METRICS = b"metrics " * 100


def subscription(**changes: Any) -> GetTelemetrySubscriptionsResponse:
    response = GetTelemetrySubscriptionsResponse(
        client_instance_id=ID,
        subscription_id=7,
        accepted_compression_types=bytes([4, 3, 1, 2]),
        push_interval_ms=10_000,
        telemetry_max_bytes=1000,
        delta_temporality=True,
        requested_metrics=["*"],
    )
    for name, value in changes.items():
        setattr(response, name, value)
    return response


def subscribed(**changes: Any) -> Telemetry:
    machine = Telemetry(NOW, lambda: 0.5)
    assert machine.subscription_request(NOW) is not None
    machine.on_subscription(subscription(**changes), NOW)
    return machine


def test_the_subscription_is_asked_for_at_once_and_without_an_id() -> None:
    machine = Telemetry(NOW, lambda: 0.5)
    assert machine.wake_at == NOW
    request = machine.subscription_request(NOW)
    assert request is not None
    assert request.client_instance_id == bytes(16)
    assert not machine.is_push_due(NOW)


@pytest.mark.parametrize(("random", "share"), [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)])
def test_the_first_push_comes_after_a_random_share_of_the_interval(random: float, share: float) -> None:
    machine = Telemetry(NOW, lambda: random)
    machine.on_subscription(subscription(), NOW)
    assert machine.wake_at == NOW + 10 * share
    assert not machine.is_push_due(NOW + 10 * share - 0.01)
    assert machine.is_push_due(NOW + 10 * share)
    assert machine.subscription_request(NOW + 10 * share) is None


def test_pushes_follow_in_the_interval_of_the_subscription() -> None:
    machine = subscribed()
    request = machine.push_request(METRICS, NOW + 10)
    assert request is not None
    assert (request.client_instance_id, request.subscription_id, request.terminating) == (ID, 7, False)
    assert request.compression_type == Compression.ZSTD
    assert bytes(decompress(request.compression_type, request.metrics)) == METRICS
    assert machine.on_push(PushTelemetryResponse(), NOW + 11)
    assert machine.wake_at == NOW + 21
    assert machine.state is TelemetryState.PUSHING
    assert machine.is_delta


@pytest.mark.parametrize("names", [["*"], [""], ["org.apache.kafka.consumer.", ""]])
def test_all_metrics_are_wanted(names: list[str]) -> None:
    assert subscribed(requested_metrics=names).wants("anything")


def test_metrics_are_wanted_by_prefix() -> None:
    machine = subscribed(requested_metrics=["a.b", "c."])
    assert machine.wants("a.bc")
    assert machine.wants("c.d")
    assert not machine.wants("a.c")


def test_if_no_metrics_are_wanted_the_client_asks_again_after_the_interval() -> None:
    machine = subscribed(requested_metrics=[])
    assert machine.state is TelemetryState.SUBSCRIBING
    assert not machine.wants("anything")
    assert machine.subscription_request(NOW + 9.9) is None
    request = machine.subscription_request(NOW + 10)
    assert request is not None
    assert request.client_instance_id == ID


@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [(0, DEFAULT_INTERVAL_S), (-5, DEFAULT_INTERVAL_S), (1, 0.1)]
)
def test_invalid_intervals_are_replaced(milliseconds: int, seconds: float) -> None:
    assert subscribed(push_interval_ms=milliseconds).wake_at == NOW + seconds


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ([2, 4], Compression.SNAPPY),
        ([99, 1], Compression.GZIP),
        ([], Compression.NONE),
        ([0, 4], Compression.NONE),
        ([77], Compression.NONE),
    ],
)
def test_the_first_known_compression_is_used(accepted: list[int], chosen: Compression) -> None:
    request = subscribed(accepted_compression_types=bytes(accepted)).push_request(METRICS, NOW)
    assert request is not None
    assert request.compression_type == chosen


@pytest.mark.parametrize(
    ("error", "wait", "is_taken"),
    [
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, 0.0, False),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0.0, False),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 10.0, False),
        (ErrorCode.TELEMETRY_TOO_LARGE, 10.0, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 10.0, True),
    ],
)
def test_after_an_error_the_subscription_is_asked_for(error: ErrorCode, wait: float, is_taken: bool) -> None:
    machine = subscribed()
    assert machine.on_push(PushTelemetryResponse(error_code=error), NOW + 20) == is_taken
    assert machine.state is TelemetryState.SUBSCRIBING
    assert machine.wake_at == NOW + 20 + wait
    assert machine.subscription_request(NOW + 20 + wait) is not None


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_VERSION]
)
def test_some_errors_end_telemetry(error: ErrorCode) -> None:
    machine = subscribed()
    machine.on_push(PushTelemetryResponse(error_code=error), NOW)
    assert machine.state is TelemetryState.OFF
    assert not machine.is_push_due(NOW + 1e6)
    other = Telemetry(NOW, lambda: 0.5)
    other.on_subscription(GetTelemetrySubscriptionsResponse(error_code=error), NOW)
    assert other.state is TelemetryState.OFF


def test_a_refused_compression_isnt_used_again() -> None:
    machine = subscribed(accepted_compression_types=bytes([4]))
    assert machine.push_request(METRICS, NOW) is not None
    machine.on_push(PushTelemetryResponse(error_code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), NOW)
    machine.on_subscription(subscription(accepted_compression_types=bytes([4])), NOW)
    request = machine.push_request(METRICS, NOW)
    assert request is not None
    assert (request.compression_type, request.metrics) == (Compression.NONE, METRICS)


def test_a_throttled_subscription_is_asked_for_later() -> None:
    machine = subscribed(requested_metrics=[])
    machine.on_subscription(
        GetTelemetrySubscriptionsResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED), NOW + 10
    )
    assert machine.wake_at == NOW + 20
    assert machine.instance_id == ID


def test_an_error_for_the_subscription_is_never_repeated_at_once() -> None:
    machine = Telemetry(NOW, lambda: 0.5)
    machine.on_subscription(
        GetTelemetrySubscriptionsResponse(error_code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID), NOW
    )
    assert machine.wake_at == NOW + DEFAULT_INTERVAL_S


def test_metrics_that_are_too_large_arent_sent() -> None:
    machine = subscribed(accepted_compression_types=b"")
    assert machine.push_request(bytes(1001), NOW + 5) is None
    assert machine.wake_at == NOW + 15
    assert machine.push_request(bytes(1000), NOW + 15) is not None


def test_without_response_the_client_asks_again_after_the_interval() -> None:
    machine = subscribed()
    machine.on_no_response(NOW + 10)
    assert machine.state is TelemetryState.SUBSCRIBING
    assert machine.wake_at == NOW + 20
    without_response = Telemetry(NOW, lambda: 0.5)
    without_response.on_no_response(NOW)
    assert without_response.wake_at == NOW + DEFAULT_INTERVAL_S


def test_the_terminating_push_is_due_at_once_and_is_the_last() -> None:
    machine = subscribed()
    machine.terminate()
    assert machine.is_push_due(NOW)
    request = machine.push_request(METRICS, NOW)
    assert request is not None
    assert request.terminating
    machine.on_push(PushTelemetryResponse(error_code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID), NOW)
    machine.on_no_response(NOW)
    assert machine.state is TelemetryState.OFF
    assert not machine.is_push_due(NOW + 1e6)
    assert machine.subscription_request(NOW + 1e6) is None


@pytest.mark.parametrize("machine", [Telemetry(NOW, lambda: 0.5), subscribed(requested_metrics=[])])
def test_there_is_no_terminating_push_without_a_subscription(machine: Telemetry) -> None:
    machine.terminate()
    assert machine.state is TelemetryState.OFF
    machine.on_subscription(subscription(), NOW)  # it was under way
    assert not machine.is_push_due(NOW + 1e6)
