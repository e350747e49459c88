"""Metrics from the same events in the real Prometheus and OpenTelemetry packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from prometheus_client import CollectorRegistry, generate_latest

from kshare.engine.events import (
    Acknowledged,
    Acquired,
    Assigned,
    Damaged,
    Event,
    Fetched,
    Finished,
    GivenBack,
    LeaseLost,
    LeaseRenewed,
    Poisoned,
    Refused,
    Responded,
    SessionEnded,
    Skipped,
)
from kshare.errors import BrokerError, ConnectionLost
from kshare.metrics.opentelemetry import OpenTelemetryObserver
from kshare.metrics.prometheus import PrometheusObserver
from kshare.metrics.readings import METRICS, readings
from kshare.state.session import AckRange

SAID = (AckRange(0, 9, b"\x01"), AckRange(10, 11, b"\x03\x00"))
EVENTS: list[Event] = [
    Responded("ShareFetch", 1, 0.02, None),
    Responded("ShareFetch", 1, 3.0, "ConnectionLost"),
    Fetched(1, 12, 900),
    Acquired("orders", 0, 10, 1),
    Acquired("orders", 0, 2, 2),
    Refused("ShareFetch", "orders", 0, "NOT_LEADER_OR_FOLLOWER"),
    Acknowledged("orders", 0, SAID, None, False),
    Acknowledged("orders", 0, SAID, BrokerError(121, "x"), False),
    Acknowledged("orders", 0, SAID, ConnectionLost("x"), True),
    Finished("orders", 0, 12, 0.3),
    Skipped("orders", 0, 4),
    Damaged("orders", 0, 3, "cut off"),
    GivenBack("orders", 0, 5, 4),
    GivenBack("orders", 0, 5, 0),
    LeaseRenewed("orders", 0, 5),
    LeaseLost("orders", 0, 6, "expired"),
    SessionEnded(1, "ConnectionLost"),
    Assigned({"orders": (0, 1)}, 2, 0),
    Assigned({"orders": (0,)}, 0, 1),
    Poisoned("orders", 0, 7, "value"),
]


def test_every_event_changes_a_metric_and_every_metric_has_an_event() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(Event))
    moved = {reading.metric for event in EVENTS for reading in readings(event)}
    assert moved == set(METRICS)
    for event in EVENTS:
        for reading in readings(event):
            assert set(reading.labels) == set(reading.metric.labels)


def test_prometheus_metrics() -> None:
    registry = CollectorRegistry()
    observer = PrometheusObserver(registry)
    for event in EVENTS:
        observer(event)
    for name, labels, amount in [
        ("requests_total", {"api": "ShareFetch", "error": ""}, 1),
        ("requests_total", {"api": "ShareFetch", "error": "ConnectionLost"}, 1),
        ("request_duration_seconds_count", {"api": "ShareFetch"}, 2),
        ("fetched_records_total", {}, 12),
        ("fetched_bytes_total", {}, 900),
        ("acquired_records_total", {"topic": "orders", "redelivered": "yes"}, 2),
        ("acknowledged_records_total", {"topic": "orders", "ack_type": "accept"}, 10),
        ("acknowledged_records_total", {"topic": "orders", "ack_type": "reject"}, 1),
        ("unacknowledged_records_total", {"topic": "orders", "error": "INVALID_RECORD_STATE"}, 12),
        ("unacknowledged_records_total", {"topic": "orders", "error": "open"}, 12),
        ("processing_duration_seconds_sum", {"topic": "orders"}, 0.3),
        ("lost_records_total", {"topic": "orders", "reason": "expired"}, 6),
        ("sessions_ended_total", {"reason": "ConnectionLost"}, 1),
        ("rebalances_total", {}, 2),
        ("assigned_partitions", {}, 1),
    ]:
        assert registry.get_sample_value(f"kshare_{name}", labels) == amount, name
    assert b"# HELP kshare_requests_total Requests to brokers, by outcome." in generate_latest(registry)


def test_second_observer_with_the_same_registry_is_refused() -> None:
    registry = CollectorRegistry()
    PrometheusObserver(registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        PrometheusObserver(registry)


def test_opentelemetry_metrics() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observer = OpenTelemetryObserver(provider.get_meter("kshare"))
    for event in EVENTS:
        observer(event)
    found, units = exported(reader)
    assert units["kshare.request.duration"] == "s"
    assert units["kshare.fetched.bytes"] == "By"
    assert found["kshare.fetched.records", ()] == 12
    assert found["kshare.assigned.partitions", ()] == 1
    assert found["kshare.request.duration", (("api", "ShareFetch"),)] == pytest.approx(3.02)
    assert found["kshare.acknowledged.records", (("ack_type", "accept"), ("topic", "orders"))] == 10
    assert {name for name, _ in found} == {f"kshare.{metric.name}" for metric in METRICS}
    provider.shutdown()


Labels = tuple[tuple[str, object], ...]


def exported(reader: InMemoryMetricReader) -> tuple[Mapping[tuple[str, Labels], float], Mapping[str, str]]:
    """Values by name and labels, and units by name."""
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[tuple[str, Labels], float] = {}
    units: dict[str, str] = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                units[metric.name] = metric.unit or ""
                for point in metric.data.data_points:
                    assert isinstance(point, NumberDataPoint | HistogramDataPoint)
                    value = point.value if isinstance(point, NumberDataPoint) else point.sum
                    found[metric.name, tuple(sorted((point.attributes or {}).items()))] = value
    return found, units
