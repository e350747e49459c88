"""The metrics: their names, labels and meaning, their values from a report, and the text that tells these. Pure.

Decides what is exported. A value that is unknown is left out, because 0 would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kshare.exporter.counters import ArchiveReason
from kshare.exporter.report import Report
from kshare.monitor.figures import Cell, Row

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True, slots=True)
class ExportedMetric:
    name: str
    about: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False


@dataclass(frozen=True, slots=True)
class ExportedValue:
    metric: ExportedMetric
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class ExporterState:
    """What the exporter tells about itself."""

    is_up: bool
    last_success: float | None
    """When the last successful reading ended, in seconds since 1970."""
    reading_s: float | None
    """How long that took."""
    requests: int
    failures: int


_LABELS = {"group": ("group",), "partition": ("group", "topic", "partition")}


def _metric(level: str, name: str, about: str, *labels: str, is_counter: bool = False) -> ExportedMetric:
    return ExportedMetric(f"kshare_{level}_{name}", about, (*_LABELS[level], *labels), is_counter)


_LAG = "Records that exist and aren't settled."
_REDELIVERED = "Of the lag, records that were delivered before and wait to be redelivered."
_MOST_DELIVERIES = "The highest delivery count among records of the lag."
_OLDEST = "Age of the first record that isn't settled."
_WINDOW_USE = "Size of the in-flight window, as a share of its limit."
_REMOVED = "Records that retention or DeleteRecords removed before the group settled them."

_GAUGES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "group": (
        ("members", "members", "Members of the group."),
        ("most_members", "members_limit", "The maximum number of members that a group may have."),
        ("partitions", "partitions", "Partitions that the group reads."),
        ("lag", "lag_records", _LAG),
        ("redelivered", "redelivered_records", _REDELIVERED),
        ("most_deliveries", "most_deliveries", _MOST_DELIVERIES),
        (
            "delivery_limit",
            "delivery_limit",
            "The delivery count limit, at which the broker archives a record.",
        ),
        ("oldest_seconds", "oldest_unsettled_seconds", _OLDEST),
        (
            "oldest_share",
            "retention_use_ratio",
            "Age of the first record that isn't settled, as a share of its topic's retention: at 1, it is removed.",
        ),
        ("window_use", "window_use_ratio", f"{_WINDOW_USE} The highest of all partitions."),
        (
            "pinned_windows",
            "pinned_windows",
            "Partitions whose in-flight window is full, and whose first record wasn't settled since the last reading.",
        ),
        (
            "stalled_partitions",
            "stalled_partitions",
            "Partitions with members in which records wait, but nothing is settled or released: their window may be "
            "full of locks, which brokers don't report.",
        ),
        ("removed", "removed_records", _REMOVED),
        (
            "has_dead_letter_topic",
            "has_dead_letter_topic",
            "1 if a dead-letter topic is set, and nothing is known that keeps brokers from writing to it.",
        ),
        ("dead_letters", "dead_letter_topic_records", "Records in the group's dead-letter topic."),
    ),
    "partition": (
        ("lag", "lag_records", _LAG),
        ("redelivered", "redelivered_records", _REDELIVERED),
        ("most_deliveries", "most_deliveries", _MOST_DELIVERIES),
        ("start", "start_offset", "The first offset that isn't settled."),
        (
            "start_unmoved_seconds",
            "start_unmoved_seconds",
            "How long the start offset hasn't changed, at least.",
        ),
        ("oldest_seconds", "oldest_unsettled_seconds", _OLDEST),
        ("retention_seconds", "retention_seconds", "How long the topic keeps records."),
        ("window_use", "window_use_ratio", _WINDOW_USE),
        ("is_window_full", "window_full", "1 if the in-flight window is full, and records after it wait."),
        ("removed", "removed_records", _REMOVED),
    ),
}
_COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("written", "written_total", "Records written to the partitions."),
    ("settled", "settled_total", "Records settled, or removed by retention before they were settled."),
    ("deliveries", "deliveries_total", "Deliveries that ended in any way."),
    ("accepted", "accepted_total", "Records accepted."),
    ("released", "released_total", "How often records were released, or their locks expired."),
)
_ARCHIVED = "Records archived: rejected, or given up by the broker at the delivery limit."

_OF_ROW = {
    level: {
        **{key: _metric(level, name, about) for key, name, about in gauges},
        **{key: _metric(level, name, about, is_counter=True) for key, name, about in _COUNTERS},
    }
    for level, gauges in _GAUGES.items()
}
"""By the names of figures."""
_ARCHIVED_OF = {
    level: _metric(level, "archived_total", _ARCHIVED, "reason", is_counter=True) for level in _GAUGES
}

UP = ExportedMetric(
    "kshare_exporter_up", "1 if the last reading of the cluster succeeded, and isn't too old."
)
LAST_SUCCESS = ExportedMetric(
    "kshare_exporter_last_success_timestamp_seconds", "When the cluster was last read, in seconds since 1970."
)
READING = ExportedMetric("kshare_exporter_reading_seconds", "How long the last successful reading took.")
REQUESTS = ExportedMetric("kshare_exporter_requests_total", "Requests sent to brokers.", is_counter=True)
FAILURES = ExportedMetric("kshare_exporter_failures_total", "Readings that failed.", is_counter=True)
UNREADABLE = ExportedMetric(
    "kshare_exporter_unreadable_groups",
    "Groups that the exporter may not read, and groups given by --group that don't exist.",
)

METRICS: tuple[ExportedMetric, ...] = (
    *(metric for level in _GAUGES for metric in (*_OF_ROW[level].values(), _ARCHIVED_OF[level])),
    *(UP, LAST_SUCCESS, READING, REQUESTS, FAILURES, UNREADABLE),
)


def report_values(found: Report, *, has_partitions: bool) -> Iterator[ExportedValue]:
    """Everything that a report knows."""
    for name, row in found.groups.items():
        yield from _row_values("group", row, (name,))
    if has_partitions:
        for row in found.partitions:
            where = (str(row["group"]), str(row["topic"]), str(row["partition"]))
            yield from _row_values("partition", row, where)
    yield ExportedValue(UNREADABLE, (), found.unreadable)


def exporter_values(state: ExporterState) -> Iterator[ExportedValue]:
    for metric, value in (
        (UP, state.is_up),
        (LAST_SUCCESS, state.last_success),
        (READING, state.reading_s),
        (REQUESTS, state.requests),
        (FAILURES, state.failures),
    ):
        yield from _value(metric, (), value)


def _row_values(level: str, row: Row, where: tuple[str, ...]) -> Iterator[ExportedValue]:
    for key, metric in _OF_ROW[level].items():
        yield from _value(metric, where, row.get(key))
    for reason in ArchiveReason:
        yield from _value(_ARCHIVED_OF[level], (*where, reason), row.get(f"archived: {reason}"))


def _value(metric: ExportedMetric, labels: tuple[str, ...], cell: Cell) -> Iterator[ExportedValue]:
    if isinstance(cell, int | float):
        yield ExportedValue(metric, labels, cell)


def exposition_text(values: Iterable[ExportedValue]) -> str:
    """Prometheus's text format, version 0.0.4, which all scrapers read: the values of each metric together.

    Written here rather than with `prometheus_client`, so that the exporter needs nothing besides the command line.
    """
    by_metric: dict[ExportedMetric, list[ExportedValue]] = {metric: [] for metric in METRICS}
    for value in values:
        by_metric[value.metric].append(value)
    lines: list[str] = []
    for metric, found in by_metric.items():
        if found:
            lines.append(f"# HELP {metric.name} {metric.about}")
            lines.append(f"# TYPE {metric.name} {'counter' if metric.is_counter else 'gauge'}")
            lines += [f"{metric.name}{_labels(value)} {_number(value.value)}" for value in found]
    return "".join(f"{line}\n" for line in lines)


def _labels(one: ExportedValue) -> str:
    if not one.labels:
        return ""
    pairs = zip(one.metric.labels, one.labels, strict=True)
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs) + "}"


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)
