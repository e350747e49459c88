"""Runs all checks, one after the other. A result is yielded as soon as it is known."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from kshare.admin.routing import Router
from kshare.doctor.check_result import CheckLevel, CheckResult, problem, unknown
from kshare.doctor.clocks import clocks
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.dead_letter_topics import dead_letter_topics
from kshare.doctor.group_health import group_health
from kshare.doctor.group_names import group_names
from kshare.doctor.group_settings import group_settings
from kshare.doctor.group_size import group_size
from kshare.doctor.installation import installation
from kshare.doctor.internal_topics import internal_topics
from kshare.doctor.reachability import bootstrap, listeners
from kshare.doctor.retention import retention
from kshare.doctor.rights import rights
from kshare.doctor.share_support import known, switched_on
from kshare.errors import IncompleteResponse, KshareError, NotAuthorized
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
_LIMIT_S = 15.0


async def examine(
    settings: NetSettings, groups: tuple[str, ...] = (), topics: tuple[str, ...] = ()
) -> AsyncIterator[CheckResult]:
    """Check the cluster and these groups; all visible ones if none is given."""
    is_reached = False
    async for finding in bootstrap(settings):
        is_reached |= finding.level is CheckLevel.OK
        yield finding
    for finding in installation():
        yield finding
    if not is_reached:
        return
    async with Pool(settings) as pool:
        info = ClusterInfo(pool, Router(pool, _LIMIT_S), groups, topics)
        reasons: set[str] = set()
        try:
            await info.discover()
        except IncompleteResponse as error:
            yield _not_checked("cluster", error)
            return
        for name, check in _CHECKS.items():
            if name == "share.version" and not info.connections:
                return  # no broker is left to ask
            try:
                async for finding in check(info):
                    yield finding
            except KshareError as error:
                finding = _not_checked(name, error)
                if (
                    finding.text not in reasons
                ):  # several checks may need the same permission, or the same broker
                    yield finding
                reasons.add(finding.text)


def _not_checked(name: str, error: KshareError) -> CheckResult:
    if isinstance(error, NotAuthorized):
        return unknown(name, f"not checked: {error.lack}", error.command)
    if isinstance(error, IncompleteResponse):
        return problem(name, str(error))
    return unknown(name, str(error))
