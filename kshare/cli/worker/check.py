"""Runs `kshare worker check`: validates a worker against a live cluster."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from kshare.admin.config import admin_settings
from kshare.admin.routing import Router
from kshare.cli.terminal.check_report import CheckReport
from kshare.cli.worker.app_options import AppOptions
from kshare.cli.worker.checks.groups import check_groups
from kshare.cli.worker.checks.limits import check_limits
from kshare.cli.worker.checks.read_facts import read_facts
from kshare.cli.worker.checks.topics import check_topics
from kshare.doctor.check_result import CheckResult, ok, problem
from kshare.doctor.cluster_info import ClusterInfo
from kshare.errors import KshareError
from kshare.net.pool import Pool
from kshare.net.settings import NetSettings
from kshare.net.share_groups import require_share_groups
from kshare.worker.handlers.routes import Route

_CHECKS = (check_topics, check_groups, check_limits)
_LIMIT_S = 15.0


def check_worker(app: AppOptions, processes: int, is_json: bool) -> None:
    """Raises Failure if there is a problem."""
    worker = app.load()
    settings = admin_settings(worker.bootstrap_servers, worker.connection)
    report = CheckReport(is_json)
    routes = worker.routes()
    names = ", ".join(route.name for route in routes)
    report.add(ok("worker", f"it has the {'handler' if len(routes) == 1 else 'handlers'} {names}"))
    anyio.run(_examine, settings, routes, processes, report.add)
    report.end()


async def _examine(
    settings: NetSettings, routes: list[Route], processes: int, report: Callable[[CheckResult], None]
) -> None:
    try:
        async with Pool(settings) as pool:
            require_share_groups(await pool.bootstrap())
            info = ClusterInfo(pool, Router(pool, _LIMIT_S))
            await info.discover()
            for node, reason in info.unreachable.items():
                report(problem("brokers", f"broker {node} can't be reached: {reason}"))
            facts = await read_facts(info, routes, processes)
    except KshareError as error:
        report(problem("brokers", str(error)))
        return
    report(ok("brokers", "they can be reached, and support share groups"))
    for check in _CHECKS:
        for result in check(facts):
            report(result)
