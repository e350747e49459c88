"""Checks that named groups exist. One that doesn't, and resembles another, is probably misspelt: it isn't checked."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kshare.admin import groups
from kshare.doctor.check_result import CheckResult, warning
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.examining_router import NotAskedAgain
from kshare.doctor.group_settings import check_of, visible_groups
from kshare.errors import BrokerError
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import did_you_mean

NOT_THERE = "the group doesn't exist (it is created when its first consumer joins)"


async def group_names(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    for name in info.groups:
        try:
            nearest = await _nearest(info, name)
        except BrokerError:  # another check reports it
            continue
        except NotAskedAgain:  # likewise
            return
        if nearest:
            info.misspelt.add(name)
            yield warning(check_of(name), f"{nearest} {NOT_THERE[0].upper()}{NOT_THERE[1:]}")


async def _nearest(info: ClusterInfo, name: str) -> str:
    """Which existing groups the name may mean. Empty if it exists, or if it was configured in advance."""
    nearest = did_you_mean(name, await visible_groups(info)).removeprefix("; ")
    if not nearest:
        return ""
    try:
        await groups.describe_share_group(info.router, name)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        entries = await info.group_config(name)
        return "" if any(entry.source == "group" for entry in entries) else nearest
    return ""
