"""Metrics of a worker for Prometheus: `pip install '.[prometheus]'`.

    worker = Worker("localhost:9092", group="orders", http="0.0.0.0:8080")
    worker.observe(PrometheusWorkerObserver())

Labels are groups, handlers, topics, and the few ways in which runs and records end. docs/grafana has a dashboard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kshare.installation import extra
from kshare.worker.rules.breaker import BreakerState
from kshare.worker.rules.decision import TOLD, RunResult
from kshare.worker.watch.health import HandlerHealth, WorkerHealth
from kshare.worker.watch.observer import HandlerRun, RecordProcessed, WorkerObserver

with extra("prometheus", __name__):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import GaugeMetricFamily, Metric
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.registry import Collector

__all__ = ["PrometheusWorkerObserver"]

_BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 300.0, 1800.0),
)
_BREAKER = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 1.0, BreakerState.OPEN: 2.0}


class _Gauge(NamedTuple):
    name: str
    about: str
    read: Callable[[HandlerHealth], float]


_GAUGES = (
    _Gauge("running_records", "Records that are being processed.", lambda health: health.running),
    _Gauge(
        "ready_records", "Records that were acquired and wait for their turn.", lambda health: health.ready
    ),
    _Gauge("held_records", "Records that are held for another attempt.", lambda health: health.held),
    _Gauge(
        "breaker_state",
        "0: closed; 1: half-open, a record is tried; 2: open.",
        lambda health: _BREAKER[health.breaker],
    ),
    _Gauge(
        "last_progress_timestamp_seconds",
        "When a record was last processed; 0: never.",
        lambda health: health.last_progress,
    ),
)


class PrometheusWorkerObserver(WorkerObserver):
    """An observer that provides metrics for Prometheus.

    Create one for all workers of a process, because a registry takes each metric once.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        self._gauges = _Gauges(self._begin)
        registry.register(
            self._gauges
        )  # before the counters, so that these are collected with what `_begin` adds
        self._processed = Counter(
            "kshare_worker_processed_records",
            "Records that a handler was called with, by how that ended: returned, failed, cancelled or postponed.",
            ("group", "handler", "topic", "result"),
            registry=registry,
        )
        self._outcomes = Counter(
            "kshare_worker_records",
            "What became of records: accepted, filtered, held, moved, dead, released or lost.",
            ("group", "handler", "topic", "outcome"),
            registry=registry,
        )
        self._duration = Histogram(
            "kshare_worker_run_duration_seconds",
            "How long handlers take for a record, or a batch.",
            ("group", "handler"),
            registry=registry,
            buckets=_BUCKETS,
        )

    def on_serve(self, health: Callable[[], WorkerHealth]) -> Callable[[], None]:
        return self._gauges.add(health)

    def on_run(self, run: HandlerRun) -> Callable[[], None]:
        def ended() -> None:
            assert run.result is not None, "it has ended"
            self._duration.labels(run.group, run.handler).observe(run.seconds)
            for delivery in run.deliveries:
                self._processed.labels(run.group, run.handler, delivery.topic, run.result).inc()

        return ended

    def on_settled(self, settled: RecordProcessed) -> None:
        delivery = settled.delivery
        self._outcomes.labels(delivery.group, settled.handler, delivery.topic, settled.outcome.label).inc()

    def _begin(self, health: HandlerHealth) -> None:
        """Let counters begin at 0: what happens before the first sample, rates don't see."""
        for topic in health.topics:
            for result in RunResult:
                self._processed.labels(health.group, health.handler, topic, result)
            for label in {outcome.label: None for outcome in TOLD}:
                self._outcomes.labels(health.group, health.handler, topic, label)

    def exposition(self) -> tuple[str, bytes]:
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)


class _Gauges(Collector):
    """Reads the health of all workers when metrics are asked for."""

    def __init__(self, begin: Callable[[HandlerHealth], None]) -> None:
        self._begin = begin
        self._healths: list[Callable[[], WorkerHealth]] = []

    def add(self, health: Callable[[], WorkerHealth]) -> Callable[[], None]:
        """Returns a function that removes it again."""
        self._healths.append(health)
        return lambda: self._healths.remove(health)

    def collect(self) -> Iterable[Metric]:
        healths = [health() for health in [*self._healths]]
        handlers = [handler for health in healths for handler in health.handlers]
        for handler in handlers:
            self._begin(handler)
        for name, about, read in _GAUGES:
            family = GaugeMetricFamily(f"kshare_worker_{name}", about, labels=("group", "handler"))
            for handler in handlers:
                family.add_metric((handler.group, handler.handler), read(handler))
            yield family
        ready = GaugeMetricFamily("kshare_worker_ready", "1 while the worker is ready: see /ready.")
        if healths:
            ready.add_metric((), float(all(health.is_ready for health in healths)))
        yield ready
