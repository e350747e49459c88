"""Runs `kshare doctor`: one check after the other, each result shown as it arrives, with suggested commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import anyio

from kshare.admin.routing import Router
from kshare.cli.cluster.cluster_info import ClusterInfo
from kshare.cli.cluster.connection import Cluster
from kshare.cli.doctor.checks.clocks import clocks
from kshare.cli.doctor.checks.dead_letter_topics import dead_letter_topics
from kshare.cli.doctor.checks.group_health import group_health
from kshare.cli.doctor.checks.group_names import group_names
from kshare.cli.doctor.checks.group_settings import group_settings
from kshare.cli.doctor.checks.installation import installation
from kshare.cli.doctor.checks.internal_topics import internal_topics
from kshare.cli.doctor.checks.reachability import bootstrap, listeners
from kshare.cli.doctor.checks.rights import rights
from kshare.cli.doctor.checks.share_support import known, switched_on
from kshare.cli.terminal.check_report import CheckReport
from kshare.cli.terminal.check_result import CheckLevel, CheckResult, unknown
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


def run_doctor(cluster: Cluster, groups: list[str], topics: list[str], is_json: bool) -> None:
    """Run all checks. Raises Failure if there is a problem, so that scripts can check the exit code."""
    report = CheckReport(is_json)
    anyio.run(_examine, cluster.settings, tuple(groups), tuple(topics), report.add)
    report.end()


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
