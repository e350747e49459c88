"""Checks the ACLs that consuming needs, as the brokers report them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kshare.cli.doctor.checks.check_result import CheckResult, ok, problem, unknown
from kshare.cli.doctor.checks.cluster_info import ClusterInfo
from kshare.cli.doctor.checks.group_settings import chosen_groups
from kshare.cli.terminal.suggestion import did_you_mean
from kshare.net.permissions import ResourceKind, Right, grant, principal
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeGroupsRequest, FindCoordinatorRequest, MetadataRequest
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.metadata_response import MetadataResponseTopic

_CHECK = "rights"
_UNSAID = -(2**31)
_BITS = {"Read": 3, "Describe": 8}
_OF_MISSING_GROUPS_TOO = 5
"""Later versions of the request return an error for a group that doesn't exist yet."""


async def rights(info: ClusterInfo) -> AsyncIterator[CheckResult]:
    """Check the permissions that members need. Read implies Describe."""
    if not info.groups and not info.topics:
        yield unknown(
            _CHECK, "not checked: name a group and its topics to see whether this user may consume them"
        )
        return
    for group in await chosen_groups(info) if info.groups else ():
        yield _judge(info, "group", group, await _on_group(info, group))
    for topic in info.topics:
        found = await _topic(info, topic)
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            command = f"kshare topics create {topic} --bootstrap-server {info.server}"
            known = [one.name or "" for one in (await info.router.metadata(None)).topics]
            yield problem(_CHECK, f"topic {topic} doesn't exist{did_you_mean(topic, known)}", command)
        else:
            yield _judge(info, "topic", topic, _on_topic(found))


def _judge(info: ClusterInfo, resource: ResourceKind, name: str, allowed: int | None) -> CheckResult:
    settings = info.pool.settings
    if allowed is None:
        return ok(_CHECK, f"{resource} {name}: the brokers have no access rules")
    if allowed & 1 << _BITS["Read"]:
        return ok(_CHECK, f"{resource} {name}: {principal(settings) or 'this user'} may read")
    return problem(
        _CHECK,
        f"{principal(settings) or 'this user'} may not read {resource} {name}",
        grant(Right("Read", resource, name), settings),
    )


async def _on_group(info: ClusterInfo, group: str) -> int | None:
    """The permissions, as a set of bits; None if the brokers have no access rules."""
    found = await info.pool.ask(None, FindCoordinatorRequest(coordinator_keys=[group]))
    coordinator = found.coordinators[0]
    if coordinator.error_code:
        return _refused(coordinator.error_code)
    info.pool.learn({coordinator.node_id: (coordinator.host, coordinator.port, None)})
    request = DescribeGroupsRequest([group], include_authorized_operations=True)
    answer = await info.pool.ask(coordinator.node_id, request, version=_OF_MISSING_GROUPS_TOO)
    if answer.groups[0].error_code:
        return _refused(answer.groups[0].error_code)
    return _bits(answer.groups[0].authorized_operations)


async def _topic(info: ClusterInfo, topic: str) -> MetadataResponseTopic:
    request = MetadataRequest(
        [MetadataRequestTopic(name=topic)], False, include_topic_authorized_operations=True
    )
    return (await info.pool.ask(None, request)).topics[0]


def _on_topic(found: MetadataResponseTopic) -> int | None:
    if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return 0
    return _bits(found.topic_authorized_operations)


def _refused(code: int) -> int | None:
    return 0 if code == ErrorCode.GROUP_AUTHORIZATION_FAILED else None


def _bits(operations: int) -> int | None:
    return None if operations == _UNSAID else operations
