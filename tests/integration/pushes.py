"""What share consumers push to brokers: Java's and ours, with the same records, to a real or the embedded broker."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isnan, nan
from pathlib import Path
from typing import NamedTuple

import anyio

from kshare import ShareConsumer
from kshare.broker.client_metrics import ClientPush
from kshare.protocol.otlp import OtlpMetric, ResourceMetrics, decode_metrics
from kshare.testing import Broker
from tests.integration.producing import produce_batches
from tools.kafka.cluster import Cluster
from tools.kafka.jars import NEWEST_RELEASE, class_path
from tools.kafka.java import find_java
from tools.kafka.tool import compile_java

RECORDS, SIZE, BATCH = 1000, 100, 50
STAY_S = 3
RACK = "rack-1"
INTERVAL_MS = 1000
EMBEDDED = "embedded"
_SOURCES = Path(__file__).parents[1] / "java"
_DEADLINE_S = 120.0


class PushedMetric(NamedTuple):
    kind: str
    """As OTLP names it: gauge, or sum with its temporality."""
    attributes: tuple[str, ...]
    """The names of the attributes of its points."""
    value: float
    """Sums are the total of all pushes; gauges are of the last push before the terminating one."""
    nodes: int
    """How many points a push has: one for each broker, or one. The value is their sum, or of means their maximum."""


class PushedMetrics(NamedTuple):
    metrics: dict[str, PushedMetric]
    attributes: dict[str, str]
    """Those of the resource: the client."""
    pushes: int
    has_terminated: bool


class Pushed(NamedTuple):
    """One push, decompressed."""

    client_id: str
    is_terminating: bool
    resources: list[ResourceMetrics]


class PushTarget:
    """A broker that receives metrics: `bootstrap`, and everything that was pushed to it."""

    def __init__(self, bootstrap: str, classes: Path, read: Callable[[], list[Pushed]]) -> None:
        self.bootstrap = bootstrap
        self._classes = classes
        self._read = read

    def run_java(self, group: str, topic: str) -> PushedMetrics:
        """Java's newest share consumer accepts all records, stays for a while, and is closed."""
        command = [
            *(str(find_java()), "-cp", f"{self._classes}:{class_path(NEWEST_RELEASE)}", "SharePush"),
            *(self.bootstrap, group, topic, str(RECORDS), str(STAY_S)),
            *(f"client.id={group}", f"client.rack={RACK}"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
        assert f"received {RECORDS}" in done.stdout, done.stdout + done.stderr
        return self._pushed_by(group)

    def run_ours(self, group: str, topic: str) -> PushedMetrics:
        """Our share consumer does the same."""

        async def consume() -> None:
            accepted = 0
            async with ShareConsumer(
                self.bootstrap, group=group, topics=[topic], client_id=group, rack=RACK
            ) as consumer:
                with anyio.fail_after(_DEADLINE_S):
                    async for batch in consumer.batches():
                        batch.accept()
                        accepted += len(batch)
                        if accepted >= RECORDS:
                            break
                    await consumer.commit()
                await anyio.sleep(STAY_S)
            assert accepted == RECORDS

        anyio.run(consume)
        return self._pushed_by(group)

    def _pushed_by(self, client_id: str) -> PushedMetrics:
        pushes = [push for push in self._read() if push.client_id == client_id]
        steady = [push for push in pushes if not push.is_terminating]
        assert steady, f"{client_id} has pushed nothing"
        metrics: dict[str, PushedMetric] = {}
        for push in (*pushes[len(steady) :], *steady):  # the last steady push decides about gauges
            for name, points in _by_name(push.resources).items():
                kind = _kind(points[0])
                values = [
                    point.value for metric in points for point in metric.points if not isnan(point.value)
                ]
                value = max(values, default=nan) if name.endswith((".avg", ".max")) else sum(values)
                if name in metrics and kind.startswith("sum"):
                    value += metrics[name].value
                keys = tuple(key for key, _ in points[0].points[0].attributes)
                metrics[name] = PushedMetric(kind, keys, value, len(points))
        attributes = dict(pair for resource in pushes[0].resources for pair in resource.attributes)
        return PushedMetrics(metrics, attributes, len(pushes), any(push.is_terminating for push in pushes))


def _by_name(resources: list[ResourceMetrics]) -> dict[str, list[OtlpMetric]]:
    found: dict[str, list[OtlpMetric]] = {}
    for resource in resources:
        for metric in resource.metrics:
            found.setdefault(metric.name, []).append(metric)
    return found


def _kind(metric: OtlpMetric) -> str:
    if metric.temporality is None:
        return "gauge"
    return f"sum, {metric.temporality.name.lower()}" + (", monotonic" if metric.is_monotonic else "")


@contextmanager
def push_target(release: str, folder: Path, *, topic: str, groups: tuple[str, ...]) -> Iterator[PushTarget]:
    """A broker with the topic full of records, groups that begin at the first, and a subscription to everything."""
    settings = {"metrics": "*", "interval.ms": str(INTERVAL_MS)}
    compile_java(_SOURCES / "SharePush.java", NEWEST_RELEASE, folder / "client")
    if release == EMBEDDED:
        with Broker(topics={topic: 2}) as broker:
            received = _watched(broker)
            _prepare(broker, topic, groups)
            broker.subscribe_client_metrics("all", settings)
            yield PushTarget(broker.bootstrap, folder / "client", lambda: received)
        return
    compile_java(_SOURCES / "TelemetryReceiver.java", release, folder / "plugins")
    file = folder / "pushes"
    reporter = {"metric.reporters": "TelemetryReceiver", "telemetry.receiver.file": str(file)}
    with Cluster(release, settings=reporter, plugins=folder / "plugins") as cluster:
        cluster.create_topic(topic, 2)
        _prepare(cluster, topic, groups)
        cluster.subscribe_client_metrics("all", settings)
        yield PushTarget(cluster.bootstrap, folder / "client", lambda: _read(file))


def _prepare(kafka: Cluster | Broker, topic: str, groups: tuple[str, ...]) -> None:
    for group in groups:
        kafka.set_group_config(group, {"share.auto.offset.reset": "earliest"})
    produce_batches(kafka.bootstrap, topic, RECORDS, SIZE, BATCH)


def _read(file: Path) -> list[Pushed]:
    found = []
    for line in file.read_text(encoding="ascii").splitlines():
        client_id, _, is_terminating, data = line.split(" ")
        found.append(Pushed(client_id, is_terminating == "true", decode_metrics(base64.b64decode(data))))
    return found


def _watched(broker: Broker) -> list[Pushed]:
    """Everything that the embedded broker takes from now on."""
    taken: list[Pushed] = []

    def add(push: ClientPush) -> None:
        taken.append(Pushed(push.client.client_id, push.is_terminating, list(push.resources)))

    broker.state.client_metrics.on_push = add
    return taken
