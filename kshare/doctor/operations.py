"""Which operations brokers allow this user on groups and topics. Asking changes nothing, and creates nothing."""

from __future__ import annotations

from enum import IntEnum

from kshare.admin.expected_rows import expected_row
from kshare.doctor.cluster_info import ClusterInfo
from kshare.protocol.error_codes import ErrorCode
from kshare.protocol.messages import DescribeGroupsRequest, FindCoordinatorRequest, MetadataRequest
from kshare.protocol.messages.metadata_request import MetadataRequestTopic
from kshare.protocol.messages.metadata_response import MetadataResponseTopic

_UNSAID = -(2**31)
_OF_MISSING_GROUPS_TOO = 5
"""Later versions of the request return an error for a group that doesn't exist yet."""


class AclOperation(IntEnum):
    """Kafka's codes."""

    READ = 3
    WRITE = 4
    ALTER_CONFIGS = 11


def allows(operations: int | None, operation: AclOperation) -> bool:
    """`operations` is None if the brokers have no access rules."""
    return operations is None or bool(operations & 1 << operation)


async def group_operations(info: ClusterInfo, group: str) -> int | None:
    """The permissions, as a set of bits; None if the brokers have no access rules."""
    found = await info.router.ask_any(FindCoordinatorRequest(coordinator_keys=[group]), lambda response: ())
    coordinator = expected_row(found.coordinators, "FindCoordinator", f"the coordinator of {group}")
    if coordinator.error_code:
        return _refused(coordinator.error_code)
    info.pool.learn({coordinator.node_id: (coordinator.host, coordinator.port, None)})
    request = DescribeGroupsRequest([group], include_authorized_operations=True)
    response = await info.router.ask_node(
        coordinator.node_id, request, lambda response: (), version=_OF_MISSING_GROUPS_TOO
    )
    described = expected_row(response.groups, "DescribeGroups", f"group {group}")
    if described.error_code:
        return _refused(described.error_code)
    return _bits(described.authorized_operations)


async def topic_with_operations(info: ClusterInfo, topic: str) -> MetadataResponseTopic:
    """The topic's metadata, which `topic_operations` reads."""
    request = MetadataRequest(
        [MetadataRequestTopic(name=topic)], False, include_topic_authorized_operations=True
    )
    response = await info.router.ask_any(request, lambda response: ())
    return expected_row(response.topics, "Metadata", f"topic {topic}")


def topic_operations(found: MetadataResponseTopic) -> int | None:
    """As `group_operations`."""
    if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return 0
    return _bits(found.topic_authorized_operations)


def _refused(code: int) -> int | None:
    return 0 if code == ErrorCode.GROUP_AUTHORIZATION_FAILED else None


def _bits(operations: int) -> int | None:
    return None if operations == _UNSAID else operations
