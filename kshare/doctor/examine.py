"""Runs all checks, one after the other. A result is reported as soon as it is known."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from kshare.doctor.check_result import CheckLevel, CheckResult, problem, unknown, warning
from kshare.doctor.clocks import clocks
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.dead_letter_topics import dead_letter_topics
from kshare.doctor.examining_router import ExaminingRouter
from kshare.doctor.group_health import group_health
from kshare.doctor.group_names import group_names
from kshare.doctor.group_settings import group_settings
from kshare.doctor.group_size import group_size
from kshare.doctor.internal_topics import internal_topics
from kshare.doctor.reachability import bootstrap, listeners
from kshare.doctor.retention import retention
from kshare.doctor.rights import rights
from kshare.doctor.share_support import known, switched_on
from kshare.errors import KshareError, NotAuthorized, Unsupported
from kshare.installation import advice, mend, why_slow
from kshare.monitor.stalls import MembersSince
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
    "members": group_size,
    "retention": retention,
}

_NOTHING_CHECKED = "check that they are right, and that the brokers run; nothing else was checked"


async def examine(
    settings: NetSettings,
    report: Callable[[CheckResult], None],
    groups: tuple[str, ...] = (),
    topics: tuple[str, ...] = (),
    members_since: MembersSince | None = None,
) -> None:
    """Check the cluster and these groups; all visible ones if none is given. For `members_since`, see `take_readings`.

    If `report` raises, nothing else is checked. No generator: connections are open meanwhile, and one that a caller
    leaves early can't close them.
    """
    levels: set[CheckLevel] = set()
    async for finding in bootstrap(settings):
        levels.add(finding.level)
        report(finding)
    if slow := why_slow():  # else nothing is said, because that doesn't concern the cluster
        report(warning("installation", f"{slow}; {advice()}", mend()))
    if CheckLevel.OK not in levels:
        if CheckLevel.PROBLEM not in levels:  # of several addresses, each is only worth a warning
            report(problem("bootstrap", f"none of these addresses can be reached: {_NOTHING_CHECKED}"))
        return
    async with Pool(settings) as pool:
        router = ExaminingRouter(pool)
        info = ClusterInfo(pool, router, groups, topics, members_since)
        said_by: dict[str, str] = {}
        try:
            await info.discover()
        except KshareError as error:
            report(_not_checked("cluster", error))
            return
        router.note_brokers(info.connections, info.unreachable)
        for name, check in _CHECKS.items():
            if name == "share.version" and not info.connections:
                return  # no broker is left to ask
            try:
                async for finding in check(info):
                    report(finding)
            except KshareError as error:
                first = said_by.setdefault(_reason(error), name)
                if first == name:
                    report(_not_checked(name, error))
                else:  # several checks may need the same permission, or the same broker
                    report(unknown(name, f"not checked, for the same reason as {first}"))
        for without_response in router.without_response:
            if without_response not in said_by:  # another broker has responded, so that all was checked
                report(problem("responses", without_response))


def _not_checked(name: str, error: KshareError) -> CheckResult:
    """A problem, unless it is about this user's permissions or the release: else a silent broker would seem healthy."""
    if isinstance(error, NotAuthorized):
        return unknown(name, f"not checked: {_reason(error)}", error.command)
    result = unknown if isinstance(error, Unsupported) else problem
    return result(name, f"not checked: {_reason(error)}")


def _reason(error: KshareError) -> str:
    return error.lack if isinstance(error, NotAuthorized) else str(error)
