"""Prometheus's text format, version 0.0.4, which all scrapers read. Pure.

Written here rather than with `prometheus_client`, so that the exporter needs nothing besides the command line.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshare.exporter.metrics import METRICS, ExportedMetric, ExportedValue

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def exposition_text(values: Iterable[ExportedValue]) -> str:
    """The values of each metric together, as the format requires. Metrics without values are left out."""
    by_metric: dict[ExportedMetric, list[ExportedValue]] = {metric: [] for metric in METRICS}
    for value in values:
        by_metric[value.metric].append(value)
    lines: list[str] = []
    for metric, found in by_metric.items():
        if found:
            lines.append(f"# HELP {metric.name} {metric.about}")
            lines.append(f"# TYPE {metric.name} {'counter' if metric.is_counter else 'gauge'}")
            lines += [f"{metric.name}{_labels(one)} {_number(one.value)}" for one in found]
    return "".join(f"{line}\n" for line in lines)


def _labels(one: ExportedValue) -> str:
    if not one.labels:
        return ""
    pairs = zip(one.metric.labels, one.labels, strict=True)
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs) + "}"


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)
