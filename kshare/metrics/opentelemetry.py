"""Metrics for OpenTelemetry: `pip install '.[opentelemetry]'`.

    ShareConsumer(..., observer=OpenTelemetryObserver())

Uses OpenTelemetry's API only; the application chooses the exporter.
"""

from __future__ import annotations

from kshare.engine.events import Event
from kshare.installation import extra
from kshare.metrics.readings import METRICS, Metric, MetricKind, readings

with extra("opentelemetry", __name__):
    from opentelemetry.metrics import Counter, Histogram, Meter, UpDownCounter, get_meter

__all__ = ["OpenTelemetryObserver"]


class OpenTelemetryObserver:
    """An observer that provides metrics for OpenTelemetry.

    `meter` defaults to one of the global provider. May be used from any thread, by any number of consumers.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        chosen = meter or get_meter("kshare")
        self._metrics = {metric: _make(metric, chosen) for metric in METRICS}

    def __call__(self, event: Event) -> None:
        for metric, amount, labels in readings(event):
            made = self._metrics[metric]
            if isinstance(made, Histogram):
                made.record(amount, labels)
            else:
                made.add(amount, labels)


def _make(metric: Metric, meter: Meter) -> Counter | UpDownCounter | Histogram:
    name = f"kshare.{metric.name}"
    match metric.kind:
        case MetricKind.COUNTER:
            return meter.create_counter(name, metric.unit, metric.about)
        case MetricKind.GAUGE:
            return meter.create_up_down_counter(name, metric.unit, metric.about)
        case MetricKind.HISTOGRAM:
            return meter.create_histogram(name, metric.unit, metric.about)
