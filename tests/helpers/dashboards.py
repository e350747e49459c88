"""The queries of a Grafana dashboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
_IN_LEGEND = re.compile(r"\{\{(\w+)\}\}")


def dashboard_queries(dashboard: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Each query in PromQL, and the labels that its place shows."""
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"], {*_IN_LEGEND.findall(target["legendFormat"])}
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            found = _LABEL_VALUES.fullmatch(variable["query"]["query"])
            assert found is not None, variable
            yield found[1], {found[2]}
