"""Runs `kshare doctor`: shows each result as it arrives, with suggested commands."""

from __future__ import annotations

from dataclasses import replace

import anyio

from kshare.cli.cluster.connection import Cluster
from kshare.cli.terminal.check_report import CheckReport
from kshare.doctor.check_result import CheckResult
from kshare.doctor.examine import examine

_CERTIFICATES = ("ca_file", "cert_file", "key_file")
"""Options of ours whose files are only read when the first check connects."""


def run_doctor(cluster: Cluster, groups: list[str], topics: list[str], is_json: bool) -> None:
    """Run all checks. Raises Failure if there is a problem, so that scripts can check the exit code."""
    report = CheckReport(is_json)

    def add(result: CheckResult) -> None:
        is_about_file = any(f"{name} " in result.text for name in _CERTIFICATES)
        report.add(replace(result, text=cluster.explained(result.text)) if is_about_file else result)

    try:
        anyio.run(examine, cluster.settings, add, tuple(groups), tuple(topics))
    finally:
        report.count_others()
    report.end()
