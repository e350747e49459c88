"""Metrics for Prometheus: `pip install '.[prometheus]'`.

ShareConsumer(..., observer=PrometheusObserver())
"""

from __future__ import annotations

from kshare.engine.events import Event
from kshare.installation import extra
from kshare.metrics.readings import METRICS, Metric, MetricKind, readings

with extra("prometheus", __name__):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["PrometheusObserver"]

_SUFFIXES = {"s": "_seconds"}
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class PrometheusObserver:
    """An observer that provides metrics for Prometheus.

    Create one for all consumers of a process, because a registry takes each metric once. May be used from any thread.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._metrics = {metric: _make(metric, registry) for metric in METRICS}

    def __call__(self, event: Event) -> None:
        for metric, amount, labels in readings(event):
            made = self._metrics[metric]
            child = made.labels(**labels) if labels else made
            if isinstance(child, Histogram):
                child.observe(amount)
            else:
                child.inc(amount)


def _make(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name = f"kshare_{metric.name.replace('.', '_')}{_SUFFIXES.get(metric.unit, '')}"
    if metric.kind is MetricKind.HISTOGRAM:
        return Histogram(name, metric.about, metric.labels, registry=registry, buckets=_BUCKETS)
    kind = Counter if metric.kind is MetricKind.COUNTER else Gauge
    return kind(name, metric.about, metric.labels, registry=registry)
