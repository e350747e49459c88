"""Checks how close groups are to `group.share.max.size`: brokers refuse further members. Costs no request."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kshare.doctor.check_result import CheckResult, trouble, warning
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.group_settings import check_of, chosen_groups
from kshare.monitor.near_limits import NEARLY_FULL
from kshare.monitor.settings import MOST_MEMBERS
from kshare.monitor.severities import Trouble


async def group_size(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    for group in (await info.readings(await chosen_groups(info))).groups.values():
        members, most = len(group.members), group.settings.most_members
        if members < NEARLY_FULL * most:
            continue
        todo = (
            "# run fewer members with more records each; or, in server.properties of every broker; then restart it:",
            f"{MOST_MEMBERS}={2 * most}",
        )
        if members < most:
            text = f"it has {members} of at most {most} members ({MOST_MEMBERS}); then no more can join"
            yield warning(check_of(group.group), text, *todo)
        else:
            yield trouble(
                Trouble.FULL,
                check_of(group.group),
                f"it has {members} members, as many as brokers allow ({MOST_MEMBERS}): more are refused with "
                "GROUP_MAX_SIZE_REACHED, among them restarted ones until the old ones' sessions end",
                *todo,
            )
