"""Checks the ACLs that consuming needs, as the brokers report them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kshare.doctor.check_result import CheckResult, ok, problem, unknown
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.commands import create_command
from kshare.doctor.group_settings import chosen_groups
from kshare.doctor.operations import (
    AclOperation,
    allows,
    group_operations,
    topic_operations,
    topic_with_operations,
)
from kshare.net.permissions import ResourceKind, Right, grant, principal
from kshare.protocol.error_codes import ErrorCode
from kshare.wording import did_you_mean

_CHECK = "rights"


async def rights(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    """Check the permissions that members need. Read implies Describe."""
    if not info.groups and not info.topics:
        yield unknown(
            _CHECK, "not checked: name a group and its topics to see whether this user may consume them"
        )
        return
    for group in await chosen_groups(info) if info.groups else ():
        yield _judge(info, "group", group, await group_operations(info, group))
    for topic in info.topics:
        found = await topic_with_operations(info, topic)
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            hint = did_you_mean(topic, [*await info.partitions()])
            yield problem(_CHECK, f"topic {topic} doesn't exist{hint}", create_command(info.server, topic))
        else:
            yield _judge(info, "topic", topic, topic_operations(found))


def _judge(info: ClusterInfo, resource: ResourceKind, name: str, allowed: int | None) -> CheckResult:
    settings = info.pool.settings
    if allowed is None:
        return ok(_CHECK, f"{resource} {name}: the brokers have no access rules")
    if allows(allowed, AclOperation.READ):
        return ok(_CHECK, f"{resource} {name}: {principal(settings) or 'this user'} may read")
    return problem(
        _CHECK,
        f"{principal(settings) or 'this user'} may not read {resource} {name}",
        grant(Right("Read", resource, name), settings),
    )
