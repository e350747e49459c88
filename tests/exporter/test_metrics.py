"""What is written is what Prometheus's own parser reads, whatever groups are called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kshare.exporter.counters import GroupCounters
from kshare.exporter.metrics import METRICS, ExporterState, exporter_values, exposition_text, report_values
from kshare.exporter.report import report
from tests.exporter.readings import group, partition, snapshot


def written(name: str, *, has_partitions: bool = True) -> str:
    counters = GroupCounters()
    now = snapshot(
        group(name, partition(name, end=9, lag=4, oldest=1.5, retention=100.0, accepted=3, window=(1, 10)))
    )
    counters.update(now)
    values = [*report_values(report(now, None, counters), has_partitions=has_partitions)]
    return exposition_text([*values, *exporter_values(ExporterState(True, 1.25, 0.5, 12, 0))])


def read(text: str) -> dict[str, list[dict[str, str]]]:
    return {
        sample.name: [each.labels for each in family.samples]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_of_a_group_is_read_as_it_is(name: str) -> None:
    found = read(written(name))
    assert found["kshare_group_lag_records"] == [{"group": name}]
    assert found["kshare_partition_lag_records"] == [{"group": name, "topic": "orders", "partition": "0"}]
    assert [sample["reason"] for sample in found["kshare_group_archived_total"]] == [
        "rejected",
        "delivery limit",
    ]


def test_names_types_and_values() -> None:
    text = written("g")
    lines = text.splitlines()
    assert 'kshare_group_lag_records{group="g"} 4' in lines
    assert "# TYPE kshare_group_lag_records gauge" in lines
    assert "# TYPE kshare_group_accepted_total counter" in lines
    assert "kshare_exporter_up 1" in lines
    assert "kshare_exporter_last_success_timestamp_seconds 1.25" in lines
    assert text.endswith("\n")


def test_partitions_can_be_left_out() -> None:
    found = read(written("g", has_partitions=False))
    assert [name for name in found if "partition_" in name] == []
    assert "kshare_group_accepted_total" in found


def test_metrics_follow_prometheus_conventions() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert metric.is_counter == metric.name.endswith("_total"), metric
        assert metric.about.endswith("."), metric
        assert "\n" not in metric.about
        assert "\\" not in metric.about
