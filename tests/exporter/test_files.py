"""Dashboard, alert rules and ScaledObject in docs/ use what the exporter exports; alerts fire when they should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from kshare.dead_letters.letter_states import default_group
from kshare.exporter.counters import ArchiveReason
from kshare.exporter.metrics import METRICS
from kshare.monitor.severities import RETENTION_NEAR_FROM, Trouble
from kshare.testing import Broker
from tests.exporter.alert_cases import END_S, TROUBLES, series_of
from tests.exporter.running_exporter import exporting
from tests.helpers.dashboards import dashboard_queries
from tests.helpers.documents import ROOT
from tests.helpers.promql import STEP_S, Series, evaluate, grouped_by, parsed, used
from tests.helpers.rejecting import reject
from tests.helpers.running_worker import from_the_start

DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs/grafana/kshare-groups.json").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "docs/prometheus/kshare-alerts.yaml").read_text(encoding="utf-8"))[
        "groups"
    ]
    for rule in group["rules"]
]
SCALED: dict[str, Any] = yaml.safe_load((ROOT / "docs/keda/scaledobject.yaml").read_text(encoding="utf-8"))
GUIDE = ROOT / "docs" / "exporter.md"
_LABELS = {metric.name: {*metric.labels, "instance"} for metric in METRICS}
_IN_ANNOTATION = re.compile(r"\{\{ \$labels\.(\w+) \}\}")


def queries() -> Iterator[tuple[str, set[str]]]:
    """Each query, and the labels that its place shows."""
    yield from dashboard_queries(DASHBOARD)
    for rule in RULES:
        yield rule["expr"], {*_IN_ANNOTATION.findall(" ".join(rule["annotations"].values()))}


@pytest.mark.parametrize(("query", "shown"), [*queries()])
def test_queries_use_metrics_and_labels_that_exist(query: str, shown: set[str]) -> None:
    expression = parsed(query)
    given = grouped_by(expression)
    assert given is None or shown <= given
    for metric, label, value in used(expression):
        assert metric in _LABELS
        assert label in {"", *_LABELS[metric]}
        assert shown <= _LABELS[metric] or "absent(" in query
        if label == "reason" and value:
            assert value in {*ArchiveReason}


def test_what_alerts_are_about_is_on_the_dashboard() -> None:
    shown = {metric for query, _ in dashboard_queries(DASHBOARD) for metric, _, _ in used(parsed(query))}
    alerting = {metric for rule in RULES for metric, _, _ in used(parsed(rule["expr"]))}
    assert alerting - shown <= {"kshare_group_has_dead_letter_topic"}


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    grids = [panel["gridPos"] for panel in panels]
    places = [
        (x, y)
        for grid in grids
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["description"] for panel in panels)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_an_alert_fires_for_its_trouble_and_no_other_does(trouble: str) -> None:
    happening, expected = TROUBLES[trouble]
    assert fired(series_of(happening)) == expected


@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_alert_fires_for_groups_that_track_dead_letters(trouble: str) -> None:
    happening, expected = TROUBLES[trouble]
    series = {
        name: {
            frozenset(
                (label, default_group("dlq") if label == "group" else value) for label, value in labels
            ): row
            for labels, row in rows.items()
        }
        for name, rows in series_of(happening).items()
    }
    assert fired(series) == expected & {"ShareGroupExporterDown", "ShareGroupsUnreadable"}


def fired(series: Series) -> set[str]:
    """The alerts that fire at the end."""
    fired = set()
    for rule in RULES:
        expression, hold_s = parsed(rule["expr"]), 60.0 * int(rule.get("for", "0m").removesuffix("m"))
        times = [END_S - step * STEP_S for step in range(int(hold_s / STEP_S) + 1)]
        if all(evaluate(expression, series, at) for at in times):
            fired.add(rule["alert"])
    return fired


def test_every_alert_is_tried() -> None:
    assert {name for _, names in TROUBLES.values() for name in names} == {rule["alert"] for rule in RULES}


def test_alerts_are_as_severe_as_what_doctor_says() -> None:
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in RULES}
    for trouble in Trouble:
        assert severities[trouble] == ("critical" if trouble.is_critical else "warning")
    near = next(rule["expr"] for rule in RULES if rule["alert"] == Trouble.RETENTION_NEAR)
    assert near.endswith(f" > {RETENTION_NEAR_FROM}")


def test_rules_have_what_people_need() -> None:
    for rule in RULES:
        assert {*rule} - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert {*rule["annotations"]} == {"summary", "description"}
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_the_scaled_object_has_fields_of_kedas_specification() -> None:
    """As documented for KEDA 2.17 and later, which introduced `fallback.behavior`."""
    assert (SCALED["apiVersion"], SCALED["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    spec = SCALED["spec"]
    assert {*spec} <= {
        *("scaleTargetRef", "pollingInterval", "cooldownPeriod", "initialCooldownPeriod", "idleReplicaCount"),
        *("minReplicaCount", "maxReplicaCount", "fallback", "advanced", "triggers"),
    }
    assert {*spec["fallback"]} == {"failureThreshold", "replicas", "behavior"}
    assert spec["fallback"]["behavior"] in (
        *("static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"),
    )
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "metrics-api"
    assert {*trigger["metadata"]} <= {
        *("url", "format", "valueLocation", "targetValue", "activationTargetValue", "unsafeSsl", "authMode"),
    }
    assert all(isinstance(value, str) for value in trigger["metadata"].values()), "KEDA takes only strings"


@pytest.mark.anyio
async def test_the_scaled_object_finds_its_value(kshare_broker: Broker, anyio_backend: str) -> None:
    (trigger,) = SCALED["spec"]["triggers"]
    url = urlsplit(trigger["metadata"]["url"])
    kshare_broker.create_topic("orders")
    from_the_start(kshare_broker, "shippers")
    kshare_broker.produce("orders", [b"x"])
    reject(kshare_broker.bootstrap, "shippers", "orders", 1)
    kshare_broker.produce("orders", [b"x"] * 4)
    async with exporting(kshare_broker.bootstrap) as exporter:
        await exporter.until(lambda found: 4.0 in found.get("kshare_group_lag_records", {}).values())
        status, form = await exporter.group(url.path.removeprefix("/groups/"))
    assert status == 200
    assert form[trigger["metadata"]["valueLocation"]] == 4
    assert url.port == 10932


@pytest.mark.anyio
async def test_the_guide_shows_what_a_group_returns(kshare_broker: Broker, anyio_backend: str) -> None:
    (example,) = re.findall(
        r"^```text\n(\{.*?\})\n```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    kshare_broker.create_topic("orders")
    from_the_start(kshare_broker, "shippers")
    kshare_broker.produce("orders", [b"x"])
    reject(kshare_broker.bootstrap, "shippers", "orders", 1)
    async with exporting(kshare_broker.bootstrap) as exporter:
        await exporter.until(lambda found: "kshare_group_lag_records" in found)
        _, form = await exporter.group("shippers")
    assert [*json.loads(example)] == [*form]


def test_the_guide_lists_all_metrics() -> None:
    listed = re.findall(
        r"^\| `(kshare_\w+)` \| ([\w, ]*) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
    )
    expected = {metric.name: ", ".join(metric.labels) for metric in METRICS}
    assert dict(listed) == expected
