"""Runs `kshare doctor`: one check after the other, each result shown as it arrives, with suggested commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict

import anyio

from kshare.admin.routing import Router
from kshare.cli.cluster.connection import Cluster
from kshare.cli.doctor.checks.check_result import CheckLevel, CheckResult, unknown
from kshare.cli.doctor.checks.clocks import clocks
from kshare.cli.doctor.checks.cluster_info import ClusterInfo
from kshare.cli.doctor.checks.dead_letter_topics import dead_letter_topics
from kshare.cli.doctor.checks.group_health import group_health
from kshare.cli.doctor.checks.group_names import group_names
from kshare.cli.doctor.checks.group_settings import group_settings
from kshare.cli.doctor.checks.installation import installation
from kshare.cli.doctor.checks.internal_topics import internal_topics
from kshare.cli.doctor.checks.reachability import bootstrap, listeners
from kshare.cli.doctor.checks.rights import rights
from kshare.cli.doctor.checks.share_support import known, switched_on
from kshare.cli.terminal.colours import PROBLEM
from kshare.cli.terminal.failure import Failure
from kshare.cli.terminal.screen import Screen
from kshare.cli.terminal.table import show_json
from kshare.errors import KshareError, NotAuthorized
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings

Check = Callable[[ClusterInfo], AsyncIterator[CheckResult]]
_CHECKS: dict[str, Check] = {
    "listeners": listeners,
    "share groups": known,
    "share.version": switched_on,
    "internal topics": internal_topics,
    "clock": clocks,
    "groups": group_names,
    "rights": rights,
    "settings": group_settings,
    "dead letters": dead_letter_topics,
    "health": group_health,
}
_LIMIT_S = 15.0
_STYLES = {
    CheckLevel.OK: "green",
    CheckLevel.WARNING: "yellow",
    CheckLevel.PROBLEM: PROBLEM,
    CheckLevel.UNKNOWN: "dim",
}
_MARGIN = 9


def run_doctor(cluster: Cluster, groups: list[str], topics: list[str], is_json: bool) -> None:
    """Run all checks. Raises Failure if there is a problem, so that scripts can check the exit code."""
    screen = Screen()
    found: list[CheckResult] = []

    def report(finding: CheckResult) -> None:
        found.append(finding)
        if not is_json:
            _show(screen, finding)

    anyio.run(_examine, cluster.settings, tuple(groups), tuple(topics), report)
    if is_json:
        show_json(screen, [asdict(one) for one in found])
    screen.done()
    problems = sum(one.level is CheckLevel.PROBLEM for one in found)
    if problems:
        raise Failure("1 problem was found" if problems == 1 else f"{problems} problems were found")


async def _examine(
    settings: NetSettings,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    report: Callable[[CheckResult], None],
) -> None:
    is_reached = False
    async for finding in bootstrap(settings):
        is_reached |= finding.level is CheckLevel.OK
        report(finding)
    for finding in installation():
        report(finding)
    if not is_reached:
        return
    async with Pool(settings) as pool:
        info = ClusterInfo(pool, Router(pool, _LIMIT_S), groups, topics)
        missing: set[str] = set()
        await info.discover()
        for name, check in _CHECKS.items():
            if name == "share.version" and not info.connections:
                return  # no broker is left to ask
            try:
                async for finding in check(info):
                    report(finding)
            except NotAuthorized as error:
                if error.lack not in missing:  # several checks may need the same permission
                    report(unknown(name, f"not checked: {error.lack}", error.command))
                missing.add(error.lack)
            except KshareError as error:
                report(unknown(name, str(error)))


def _show(screen: Screen, finding: CheckResult) -> None:
    style = _STYLES[finding.level]
    screen.paragraph((finding.level.ljust(_MARGIN), style), f"{finding.check}: {finding.text}", _MARGIN)
    for line in finding.todo:
        screen.whole((" " * _MARGIN, ""), (line, "cyan"))
