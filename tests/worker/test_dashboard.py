"""The Grafana dashboard, and the alerts in the guide: their metrics and labels are exported by a worker that runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kshare.testing import Broker
from kshare.worker import Retry, Worker
from kshare.worker.prometheus import PrometheusWorkerObserver
from tests.helpers.dashboards import dashboard_queries
from tests.helpers.documents import ROOT, blocks
from tests.helpers.promql import grouped_by, parsed, used
from tests.helpers.running_worker import from_the_start, running, until

FILE = ROOT / "docs" / "grafana" / "kshare-worker.json"
GUIDE = ROOT / "docs" / "worker-observability.md"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def queries() -> Iterator[tuple[str, set[str]]]:
    """Each query in PromQL, and labels that its place needs besides."""
    yield from dashboard_queries(DASHBOARD)
    for language, text in blocks(GUIDE):
        if language == "text" and "kshare_worker" in text:
            yield from ((line, set()) for line in text.splitlines())


def test_legends_use_labels_that_the_result_has() -> None:
    for query, labels in queries():
        given = grouped_by(parsed(query))
        assert given is None or labels <= given, query


@pytest.mark.anyio
async def test_everything_in_the_queries_is_exported(kshare_broker: Broker, anyio_backend: str) -> None:
    exported = await labels_of_a_run(kshare_broker)
    for query, in_its_place in queries():
        for metric, label, value in used(parsed(query)):
            assert metric in exported, query
            known = exported[metric]
            assert in_its_place <= {*known}, query
            if label:
                assert label in known, query
            if value and not value.startswith("$"):
                assert {*value.split("|")} <= known[label], query


async def labels_of_a_run(broker: Broker) -> dict[str, dict[str, set[str]]]:
    """Metric → label → its values."""
    registry = CollectorRegistry()
    broker.create_topic("orders")
    from_the_start(broker)
    worker = Worker(broker.bootstrap, group="g", retry=Retry(attempts=1))
    worker.observe(PrometheusWorkerObserver(registry))

    @worker.handler("orders")
    async def ship(value: bytes) -> None:
        if value == b"bad":
            raise ValueError

    broker.produce("orders", [b"good", b"bad"])
    found: dict[str, dict[str, set[str]]] = {}
    async with running(worker):
        await until(lambda: worker.runners[0].counts.dead == 1)
        for family in registry.collect():
            for sample in family.samples:
                labels = found.setdefault(sample.name, {})
                for name, value in sample.labels.items():
                    labels.setdefault(name, set()).add(value)
    return found


@pytest.mark.lengthy
@pytest.mark.anyio
async def test_the_guide_lists_all_metrics(kshare_broker: Broker, anyio_backend: str) -> None:
    exported = await labels_of_a_run(kshare_broker)
    names = {re.sub("_(bucket|count|sum)$", "", name) for name in exported if not name.endswith("_created")}
    listed = re.findall(
        r"^\| `(kshare_\w+)` \| ([\w, ]*)", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert {name for name, _ in listed} == names
    for name, labels in listed:
        known = exported.get(name) or exported.get(f"{name}_count", {})
        assert {label for label in labels.strip().split(", ") if label} == {*known}, name


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    places = [
        (x, y)
        for grid in (panel["gridPos"] for panel in panels)
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["description"] for panel in panels)
