"""Runs `kshare doctor`: shows each result as it arrives, with suggested commands."""

from __future__ import annotations

import anyio

from kshare.cli.cluster.connection import Cluster
from kshare.cli.terminal.check_report import CheckReport
from kshare.doctor.examine import examine


def run_doctor(cluster: Cluster, groups: list[str], topics: list[str], is_json: bool) -> None:
    """Run all checks. Raises Failure if there is a problem, so that scripts can check the exit code."""
    report = CheckReport(is_json)
    try:
        anyio.run(examine, cluster.settings, report.add, tuple(groups), tuple(topics))
    finally:
        report.count_others()
    report.end()
