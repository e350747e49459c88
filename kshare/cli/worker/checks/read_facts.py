"""Reads from a cluster what the checks of a worker need to know. Changes nothing, and joins no group."""

from __future__ import annotations

from kshare.admin.configs import broker_values, group_config
from kshare.admin.expected_starts import RESET
from kshare.admin.groups import describe_share_group, list_groups
from kshare.admin.offsets import share_group_offsets
from kshare.admin.routing import response_error
from kshare.cli.worker.checks.app_facts import (
    AppFacts,
    GroupFacts,
    TopicFacts,
    dead_topics,
    members_of,
    retry_topics,
    source_topics,
)
from kshare.cli.worker.checks.groups import MOST_MEMBERS
from kshare.doctor.cluster_info import ClusterInfo
from kshare.doctor.operations import group_operations, topic_operations, topic_with_operations
from kshare.errors import BrokerError, NotAuthorized
from kshare.net.permissions import Right
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import CreateTopicsRequest, ShareAcknowledgeRequest
from kshare.protocol.messages.create_topics_request import CreatableTopic
from kshare.worker.handlers.routes import Route
from kshare.worker.rules.limits import ShareLimits
from kshare.worker.run.group_limits import read_group_limits

_RENEWING = 2
"""The version of ShareAcknowledge that can renew."""
_TIMEOUT_MS = 30_000


async def read_facts(info: ClusterInfo, routes: list[Route], processes: int) -> AppFacts:
    """Raises KshareError if brokers can't be asked at all; what this user may not read is left out."""
    metadata = await info.router.metadata(None)
    known = tuple(topic.name or "" for topic in metadata.topics if not topic.is_internal)
    routes = [route.matching(known) for route in routes]
    sources = source_topics(routes)
    own = [*retry_topics(routes), *dead_topics(routes)]
    topics = {
        name: await _topic(info, name, may_create=name in own) for name in {**sources, **dict.fromkeys(own)}
    }
    types = await _group_types(info)
    read_by: dict[str, list[str]] = {group: [] for group in members_of(routes)}
    for topic, readers in sources.items():
        for route in readers:
            if topics[topic].partitions:
                read_by[route.group].append(topic)
    values = await broker_values(info.router, [MOST_MEMBERS])
    most = values.get(MOST_MEMBERS)
    return AppFacts(
        routes=routes,
        settings=info.pool.settings,
        can_renew=all(
            connection.version_for(ShareAcknowledgeRequest) >= _RENEWING
            for connection in info.connections.values()
        ),
        topics=topics,
        groups={group: await _group(info, group, types, read_by[group]) for group in read_by},
        known_topics=known,
        most_members=int(most) if most else None,
        processes=processes,
    )


async def _topic(info: ClusterInfo, name: str, *, may_create: bool) -> TopicFacts:
    found = await topic_with_operations(info, name)
    operations = topic_operations(found)
    if may_create and not found.partitions:
        try:
            await _try_to_create(info, name)
        except NotAuthorized as error:
            return TopicFacts(0, operations, error.lack, error.command)
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # it exists, and this user may not see it
                return TopicFacts(0, operations, str(error))
    return TopicFacts(len(found.partitions), operations)


async def _try_to_create(info: ClusterInfo, name: str) -> None:
    """Let a broker check the request, without creating the topic. Raises BrokerError if it can't be created."""
    request = CreateTopicsRequest([CreatableTopic(name, -1, -1)], _TIMEOUT_MS, validate_only=True)
    await info.router.ask_any(
        request,
        lambda response: [
            response_error(row, f"creating topic {name}", Right("Create", "topic", name))
            for row in response.topics
        ],
    )


async def _group_types(info: ClusterInfo) -> dict[str, str]:
    """Empty if we may not list groups."""
    try:
        return {group.group: group.type for group in await list_groups(info.router, (), ())}
    except NotAuthorized:
        return {}


async def _group(info: ClusterInfo, group: str, types: dict[str, str], topics: list[str]) -> GroupFacts:
    kind = types.get(group, "")
    operations = await group_operations(info, group)
    unreadable = reset = ""
    is_chosen, limits = False, ShareLimits()
    try:
        entries = {entry.name: entry for entry in await group_config(info.router, group)}
    except NotAuthorized as error:
        unreadable = str(error)
    else:
        limits = await read_group_limits(info.router, group)
        if RESET in entries:
            reset, is_chosen = entries[RESET].value or "", entries[RESET].source == "group"
    return GroupFacts(
        kind,
        operations,
        limits,
        reset,
        is_chosen,
        await _unread(info, group, topics),
        await _members(info, group),
        unreadable,
    )


async def _unread(info: ClusterInfo, group: str, topics: list[str]) -> tuple[str, ...]:
    try:
        offsets = await share_group_offsets(info.router, group, None)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            return ()
        offsets = []
    read = {offset.topic for offset in offsets if offset.start_offset is not None}
    return tuple(topic for topic in topics if topic not in read)


async def _members(info: ClusterInfo, group: str) -> int:
    try:
        return len((await describe_share_group(info.router, group)).members)
    except BrokerError:
        return 0
